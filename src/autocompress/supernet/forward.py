"""The forward pass of a reordered parent under soft choices.

Every choice is a prefix of its axis, so a mask with one probability per entry stands for all of
them. The residual stream itself is not masked: entries beyond the active width are never read,
since every norm sums over the active prefix only and its output is masked (Nemotron Elastic masks
the norm's output; the active width in the mean is ours, and what makes a corner equal the slice).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional
from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb

from autocompress.domain.architecture import Attention
from autocompress.domain.space import AttentionChoices, MlpChoices, SearchSpace
from autocompress.models.heterogeneous import (
    BlockAttention,
    BlockMlp,
    HeterogeneousBlock,
    HeterogeneousForCausalLM,
    Masks,
    RotaryAngles,
)
from autocompress.supernet.choices import SoftAttention, SoftChoices, SoftMlp, prefix_mask


class Supernet:
    """A reordered parent and the space that is searched in it."""

    def __init__(self, model: HeterogeneousForCausalLM, space: SearchSpace) -> None:
        self.model = model
        self.space = space

    def hidden_states(self, rows: Tensor, choices: SoftChoices) -> Tensor:
        """States behind the final norm, ``[rows * s, hidden size]``, for token ids ``[rows, s]``.

        Gradients reach the weights and every probability.
        """
        network = self.model.model
        stream = network.embed_tokens(rows)
        positions = torch.arange(rows.shape[1], device=rows.device)[None]
        masks = network.masks(stream, None, positions, None)
        angles = network.rotary_emb(stream, positions)
        width = _ActiveWidth(choices.hidden_size, self.space.hidden_size, stream)
        for module, soft, sizes in zip(
            network.blocks, choices.blocks, self.space.blocks, strict=True
        ):
            block = cast(HeterogeneousBlock, module)
            if isinstance(soft, SoftAttention):
                assert isinstance(sizes, AttentionChoices)
                assert block.attention is not None
                heads = _head_mask(soft, sizes, stream)
                added = _attend(
                    block.attention, width.norm(block.norm, stream), heads, angles, masks
                )
            else:
                assert isinstance(soft, SoftMlp)
                assert isinstance(sizes, MlpChoices)
                assert block.mlp is not None
                neurons = prefix_mask(
                    soft.intermediate_size, sizes.intermediate_size, sizes.parent.intermediate_size
                ).to(stream)
                added = _feed_forward(block.mlp, width.norm(block.norm, stream), neurons)
            stream = stream + soft.keep.to(stream) * added
        states: Tensor = width.norm(network.norm, stream)
        return states.flatten(0, 1)


class _ActiveWidth:
    """RMSNorm over the active part of the stream; between sizes, the expected mean square."""

    def __init__(self, probabilities: Tensor, sizes: tuple[int, ...], like: Tensor) -> None:
        self._probabilities = probabilities.to(like.device)
        self._sizes = sizes
        self._mask = prefix_mask(probabilities, sizes, like.shape[-1]).to(like)

    def norm(self, norm: LlamaRMSNorm, stream: Tensor) -> Tensor:
        """``norm`` of ``stream [..., h]`` over the active width, zero beyond it."""
        squares = stream.float().square()
        mean_square = torch.zeros_like(squares[..., :1])
        for probability, size in zip(self._probabilities, self._sizes, strict=True):
            mean_square = mean_square + probability * squares[..., :size].mean(-1, keepdim=True)
        normed = stream.float() * torch.rsqrt(mean_square + norm.variance_epsilon)
        output: Tensor = norm.weight * normed.to(stream.dtype) * self._mask
        return output


def _head_mask(soft: SoftAttention, sizes: AttentionChoices, like: Tensor) -> Tensor:
    """``[query heads]`` in the order (group, rank), as heads lie in a reordered parent."""
    parent = sizes.parent
    groups = prefix_mask(soft.kv_heads, sizes.kv_heads, parent.kv_heads)
    ranks = prefix_mask(soft.queries_per_group, sizes.queries_per_group, parent.queries_per_group)
    return (groups[:, None] * ranks[None]).flatten().to(like)


def _attend(
    attention: BlockAttention, hidden: Tensor, heads: Tensor, angles: RotaryAngles, masks: Masks
) -> Tensor:
    """The block's attention with the output of every query head times its mask."""
    sizes: Attention = attention.sizes
    shape = (*hidden.shape[:-1], -1, sizes.head_dim)
    query = attention.q_proj(hidden).view(shape)
    key = attention.k_proj(hidden).view(shape)
    value = attention.v_proj(hidden).view(shape).transpose(1, 2)
    if attention.q_norm is not None and attention.k_norm is not None:
        query, key = attention.q_norm(query), attention.k_norm(key)
    query, key = apply_rotary_pos_emb(query.transpose(1, 2), key.transpose(1, 2), *angles)
    mask = masks[sizes.window]
    output = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=True
    )
    masked = output * heads[None, :, None, None]
    projected: Tensor = attention.o_proj(masked.transpose(1, 2).flatten(2))
    return projected


def _feed_forward(mlp: BlockMlp, hidden: Tensor, neurons: Tensor) -> Tensor:
    """The block's MLP with every neuron times its mask."""
    inner: Tensor = (
        mlp.act_fn(mlp.up_proj(hidden))
        if mlp.gate_proj is None
        else mlp.act_fn(mlp.gate_proj(hidden)) * mlp.up_proj(hidden)
    )
    output: Tensor = mlp.down_proj(inner * neurons)
    return output
