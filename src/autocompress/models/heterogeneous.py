"""The canonical model: residual blocks of any size, with transformers' interfaces."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from transformers import DynamicCache, GenerationMixin, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache
from transformers.masking_utils import create_causal_mask, sliding_window_overlay
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import (
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
    eager_attention_forward,
)

from autocompress.domain.architecture import Architecture, Attention, Block, Mlp
from autocompress.families.traits import Traits
from autocompress.models.configuration import architecture_of, traits_of
from autocompress_vllm.config import HeterogeneousConfig

#: Cosine and sine of the rotary angles, each (batch, sequence, head_dim).
RotaryAngles = tuple[torch.Tensor, torch.Tensor]
#: Additive or boolean mask (batch, 1, queries, keys) by sliding window; ``None`` is plain causal.
Masks = dict[int | None, torch.Tensor | None]


class BlockAttention(nn.Module):
    """Grouped-query attention with the sizes of one block.

    ``cache_index`` is the block's place among the attention blocks, which is its layer in a cache.
    """

    def __init__(self, config: HeterogeneousConfig, sizes: Attention, cache_index: int) -> None:
        super().__init__()
        self.config = config
        self.sizes = sizes
        self.cache_index = cache_index
        # What transformers' attention functions read from a module.
        self.num_key_value_groups = sizes.queries_per_group
        self.is_causal = True
        hidden, head_dim = config.hidden_size, sizes.head_dim
        query_width, kv_width = sizes.query_heads * head_dim, sizes.kv_heads * head_dim
        self.q_proj = nn.Linear(hidden, query_width, bias=sizes.qkv_bias)
        self.k_proj = nn.Linear(hidden, kv_width, bias=sizes.qkv_bias)
        self.v_proj = nn.Linear(hidden, kv_width, bias=sizes.qkv_bias)
        self.o_proj = nn.Linear(query_width, hidden, bias=sizes.output_bias)
        eps = config.rms_norm_eps
        self.q_norm = LlamaRMSNorm(head_dim, eps) if sizes.qk_norm else None
        self.k_norm = LlamaRMSNorm(head_dim, eps) if sizes.qk_norm else None

    def forward(
        self, hidden: torch.Tensor, angles: RotaryAngles, masks: Masks, cache: Cache | None
    ) -> torch.Tensor:
        """``hidden``: (batch, sequence, hidden_size), normed; the result has the same shape."""
        shape = (*hidden.shape[:-1], -1, self.sizes.head_dim)
        query = self.q_proj(hidden).view(shape)
        key = self.k_proj(hidden).view(shape)
        value = self.v_proj(hidden).view(shape).transpose(1, 2)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = apply_rotary_pos_emb(query.transpose(1, 2), key.transpose(1, 2), *angles)
        if cache is not None:
            key, value = cache.update(key, value, self.cache_index)
        attend: Callable[..., tuple[torch.Tensor, torch.Tensor | None]] = (
            ALL_ATTENTION_FUNCTIONS.get_interface(
                self.config._attn_implementation, eager_attention_forward
            )
        )
        window = self.sizes.window
        output, _ = attend(
            self,
            query,
            key,
            value,
            masks[window],
            dropout=0.0,
            scaling=self.sizes.head_dim**-0.5,
            sliding_window=window,
        )
        projected: torch.Tensor = self.o_proj(output.reshape(*hidden.shape[:-1], -1))
        return projected


class BlockMlp(nn.Module):
    """Gated, ``down(act(gate(x)) * up(x))``, or plain, ``down(act(up(x)))``."""

    def __init__(self, config: HeterogeneousConfig, sizes: Mlp) -> None:
        super().__init__()
        hidden, width = config.hidden_size, sizes.intermediate_size
        self.gate_proj = nn.Linear(hidden, width, bias=sizes.bias) if sizes.gated else None
        self.up_proj = nn.Linear(hidden, width, bias=sizes.bias)
        self.down_proj = nn.Linear(width, hidden, bias=sizes.bias)
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """``hidden``: (..., hidden_size), normed; the result has the same shape."""
        if self.gate_proj is None:
            inner = self.act_fn(self.up_proj(hidden))
        else:
            inner = self.act_fn(self.gate_proj(hidden)) * self.up_proj(hidden)
        output: torch.Tensor = self.down_proj(inner)
        return output


class HeterogeneousBlock(GradientCheckpointingLayer):  # type: ignore[misc]  # untyped here
    """One residual block: the stream plus attention or MLP of its norm; a skip is the stream."""

    def __init__(self, config: HeterogeneousConfig, sizes: Block, cache_index: int) -> None:
        super().__init__()
        self.attention: BlockAttention | None = None
        self.mlp: BlockMlp | None = None
        if isinstance(sizes, Attention | Mlp):
            self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        if isinstance(sizes, Attention):
            self.attention = BlockAttention(config, sizes, cache_index)
        if isinstance(sizes, Mlp):
            self.mlp = BlockMlp(config, sizes)

    def forward(
        self, hidden: torch.Tensor, angles: RotaryAngles, masks: Masks, cache: Cache | None
    ) -> torch.Tensor:
        """``hidden``: the stream, (batch, sequence, hidden_size), before and after."""
        added: torch.Tensor
        if self.attention is not None:
            added = self.attention(self.norm(hidden), angles, masks, cache)
        elif self.mlp is not None:
            added = self.mlp(self.norm(hidden))
        else:
            return hidden
        return hidden + added


class HeterogeneousPreTrainedModel(PreTrainedModel):  # type: ignore[misc]  # untyped here
    """What transformers asks of every model of this configuration."""

    config: HeterogeneousConfig
    config_class = HeterogeneousConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["HeterogeneousBlock"]  # noqa: RUF012  # as transformers declares it
    _skip_keys_device_placement = ["past_key_values"]  # noqa: RUF012  # same
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True


class HeterogeneousModel(HeterogeneousPreTrainedModel):
    """Embedding, residual blocks and final norm."""

    def __init__(self, config: HeterogeneousConfig) -> None:
        super().__init__(config)
        self.architecture = architecture_of(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        blocks, attention_blocks = [], 0
        for sizes in self.architecture.blocks:
            blocks.append(HeterogeneousBlock(config, sizes, attention_blocks))
            attention_blocks += isinstance(sizes, Attention)
        self.blocks = nn.ModuleList(blocks)
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary_emb = LlamaRotaryEmbedding(config)
        self.gradient_checkpointing = False
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        *,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        **_: object,
    ) -> BaseModelOutputWithPast:
        """``last_hidden_state`` is (batch, sequence, hidden_size), after the final norm.

        With ``output_hidden_states``, ``hidden_states`` holds the stream before every block, then
        the last one normed.
        """
        hidden = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        if position_ids is None:
            seen = 0 if past_key_values is None else past_key_values.get_seq_length()
            position_ids = torch.arange(hidden.shape[1], device=hidden.device)[None] + seen
        masks = self.masks(hidden, attention_mask, position_ids, past_key_values)
        angles = self.rotary_emb(hidden, position_ids)
        streams = [hidden]
        for block in self.blocks:
            hidden = block(hidden, angles, masks, past_key_values)
            streams.append(hidden)
        hidden = self.norm(hidden)
        return BaseModelOutputWithPast(
            last_hidden_state=hidden,
            past_key_values=past_key_values,
            hidden_states=(*streams[:-1], hidden) if output_hidden_states else None,
        )

    def masks(
        self,
        hidden: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor,
        cache: Cache | None,
    ) -> Masks:
        """One mask for every sliding window that some block has."""
        windows = {
            sizes.window for sizes in self.architecture.blocks if isinstance(sizes, Attention)
        }
        return {
            window: create_causal_mask(
                config=self.config,
                inputs_embeds=hidden,
                attention_mask=attention_mask,
                past_key_values=cache,
                position_ids=position_ids,
                and_mask_function=None if window is None else sliding_window_overlay(window),
            )
            for window in windows
        }


class HeterogeneousForCausalLM(HeterogeneousPreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """The model with its output head, which is the embedding where those are tied."""

    _tied_weights_keys = {  # noqa: RUF012  # as transformers declares it
        "lm_head.weight": "model.embed_tokens.weight"
    }

    def __init__(self, config: HeterogeneousConfig) -> None:
        super().__init__(config)
        self.model = HeterogeneousModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @property
    def architecture(self) -> Architecture:
        """The sizes of this model."""
        return self.model.architecture

    @property
    def traits(self) -> Traits:
        """What this model has beside its sizes."""
        return traits_of(self.config)

    def _caches_by_default(self) -> bool:
        # A cache would be filled twice when a checkpointed block is computed again.
        return self.config.use_cache and not self.training

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        *,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: object,
    ) -> CausalLMOutputWithPast:
        """``logits`` is (batch, kept positions, vocab_size); 0 keeps all of them."""
        del return_dict  # transformers' generation passes it; the answer is always a mapping
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache if use_cache is not None else self._caches_by_default(),
            output_hidden_states=output_hidden_states,
        )
        hidden = outputs.last_hidden_state
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(hidden[:, kept, :])
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size
            )
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
        )
