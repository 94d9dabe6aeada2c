"""Architectures written as ``nemotron-nas``, and what that format cannot hold."""

from __future__ import annotations

from collections.abc import Iterator

from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip
from autocompress.families.family import BLOCKS_PER_LAYER, NotExpressibleError
from autocompress.families.llama.export import trait_fields
from autocompress.families.nemotron_nas.config import MODEL_TYPE, WIDTH_MULTIPLE, width_of
from autocompress.families.traits import Traits

_ARCHITECTURE = "DeciLMForCausalLM"


def write_config(architecture: Architecture, traits: Traits) -> dict[str, object]:
    """A ``config.json`` with ``block_configs``.

    Raises:
        NotExpressibleError: with the rule that forbids it.
    """
    attention = architecture.blocks[::BLOCKS_PER_LAYER]
    mlps = architecture.blocks[1::BLOCKS_PER_LAYER]
    objection = next(_objections(architecture, traits, attention, mlps), None)
    if objection is not None:
        raise NotExpressibleError(objection)
    kept = next(block for block in attention if isinstance(block, Attention))
    kept_mlps = [block for block in mlps if isinstance(block, Mlp)]
    return {
        "architectures": [_ARCHITECTURE],
        "model_type": MODEL_TYPE,
        "hidden_size": architecture.hidden_size,
        "vocab_size": architecture.vocab_size,
        "tie_word_embeddings": architecture.tied_embeddings,
        "num_hidden_layers": len(attention),
        "num_attention_heads": kept.query_heads,
        "num_key_value_heads": None,
        "head_dim": kept.head_dim,
        "intermediate_size": None,
        "attention_bias": kept.qkv_bias,
        "mlp_bias": kept_mlps[0].bias if kept_mlps else False,
        "block_configs": [
            {"attention": _attention(first), "ffn": _mlp(second, architecture.hidden_size)}
            for first, second in zip(attention, mlps, strict=True)
        ],
        **trait_fields(traits),
    }


def _objections(
    architecture: Architecture,
    traits: Traits,
    attention: tuple[Block, ...],
    mlps: tuple[Block, ...],
) -> Iterator[str]:
    if (
        len(attention) != len(mlps)
        or any(isinstance(block, Mlp) for block in attention)
        or any(isinstance(block, Attention) for block in mlps)
    ):
        yield "blocks do not alternate between attention and MLP"
        return
    kept = [block for block in attention if isinstance(block, Attention)]
    kept_mlps = [block for block in mlps if isinstance(block, Mlp)]
    if not isinstance(attention[0], Attention):
        # vLLM's model takes the residual for granted after the first layer's attention.
        yield "the first layer has no attention"
        return
    if len({(block.query_heads, block.head_dim) for block in kept}) > 1:
        yield "query heads differ between layers"
    if len({block.bias for block in kept_mlps}) > 1 or len({b.qkv_bias for b in kept}) > 1:
        yield "biases differ between layers"
    if any(block.qkv_bias != block.output_bias for block in kept):
        yield "attention biases are in the inner or the output projections only"
    if any(block.qk_norm for block in kept):
        yield "the format has no query-key norms"
    if any(block.window is not None for block in kept):
        yield "vLLM reads no window in this format"
    if not all(block.gated for block in kept_mlps):
        yield "an MLP has no gate"
    if traits.hidden_act != "silu":
        yield f"activation {traits.hidden_act} is not served"
    if architecture.hidden_size % kept[0].query_heads:
        yield (
            f"the hidden size {architecture.hidden_size} is not a multiple of "
            f"{kept[0].query_heads} heads"
        )


def _attention(block: Block) -> dict[str, object]:
    kept = isinstance(block, Attention)
    return {
        "n_heads_in_group": block.queries_per_group if isinstance(block, Attention) else None,
        "no_op": not kept,
        "replace_with_linear": False,
    }


def _mlp(block: Block, hidden_size: int) -> dict[str, object]:
    if not isinstance(block, Mlp):
        assert isinstance(block, Skip)
        return {"ffn_mult": None, "no_op": True, "replace_with_linear": False}
    width = block.intermediate_size
    plain: dict[str, object] = {"no_op": False, "replace_with_linear": False}
    # Every engine reads ffn_mult; only vLLM reads intermediate_size, which holds any width.
    multiplier = 3 * width / (2 * hidden_size)
    if width % WIDTH_MULTIPLE == 0 and width_of(multiplier, hidden_size) == width:
        return {"ffn_mult": multiplier, **plain}
    return {"intermediate_size": width, **plain}
