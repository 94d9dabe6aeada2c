"""The vLLM model: residual blocks of any size, attention, MLP or skipped, in any order.

Tensors in a checkpoint: ``model.embed_tokens.weight``, ``model.norm.weight``, ``lm_head.weight``
(absent when tied) and, for block ``i``, ``model.blocks.{i}.norm.weight``,
``.attention.{q,k,v,o}_proj.{weight,bias}``, ``.attention.{q,k}_norm.weight`` and
``.mlp.{gate,up,down}_proj.{weight,bias}``. A skipped block has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import torch
from torch import nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import CacheConfig, VllmConfig
from vllm.distributed import get_pp_group, get_tensor_model_parallel_world_size
from vllm.model_executor.layers.activation import get_act_and_mul_fn, get_act_fn
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import (
    ColumnParallelLinear,
    MergedColumnParallelLinear,
    QKVParallelLinear,
    RowParallelLinear,
)
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.quantization import QuantizationConfig
from vllm.model_executor.layers.rotary_embedding import get_rope
from vllm.model_executor.layers.vocab_parallel_embedding import (
    ParallelLMHead,
    VocabParallelEmbedding,
)
from vllm.model_executor.models.interfaces import SupportsPP
from vllm.model_executor.models.utils import (
    AutoWeightsLoader,
    PPMissingLayer,
    WeightsMapper,
    make_empty_intermediate_tensors_factory,
    make_layers,
    maybe_prefix,
)
from vllm.sequence import IntermediateTensors

from autocompress_vllm.config import HeterogeneousConfig, Sizes, block_sizes


class BlockAttention(nn.Module):
    """Grouped-query attention with the head counts of one block.

    Raises:
        ValueError: when tensor parallelism does not divide the heads.
    """

    def __init__(
        self,
        config: HeterogeneousConfig,
        sizes: Sizes,
        cache_config: CacheConfig | None,
        quant_config: QuantizationConfig | None,
        prefix: str,
    ) -> None:
        super().__init__()
        self.head_dim: int = sizes["head_dim"]
        parallel = get_tensor_model_parallel_world_size()
        query_heads, kv_heads = sizes["query_heads"], sizes["kv_heads"]
        check_heads(prefix, query_heads, kv_heads, parallel)
        # Fewer KV heads than devices: each device holds a copy of one.
        local_kv_heads = max(1, kv_heads // parallel)
        self.query_width = query_heads // parallel * self.head_dim
        self.kv_width = local_kv_heads * self.head_dim
        self.qkv_proj = QKVParallelLinear(
            config.hidden_size,
            self.head_dim,
            query_heads,
            kv_heads,
            bias=sizes.get("qkv_bias", False),
            quant_config=quant_config,
            prefix=f"{prefix}.qkv_proj",
        )
        self.o_proj = RowParallelLinear(
            query_heads * self.head_dim,
            config.hidden_size,
            bias=sizes.get("output_bias", False),
            quant_config=quant_config,
            prefix=f"{prefix}.o_proj",
        )
        self.q_norm: nn.Module | None = None
        self.k_norm: nn.Module | None = None
        if sizes.get("qk_norm", False):
            self.q_norm = RMSNorm(self.head_dim, eps=config.rms_norm_eps)
            self.k_norm = RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.rotary_emb = get_rope(
            self.head_dim,
            max_position=config.max_position_embeddings,
            rope_parameters=config.rope_parameters,
        )
        self.attn = Attention(
            query_heads // parallel,
            self.head_dim,
            self.head_dim**-0.5,
            num_kv_heads=local_kv_heads,
            cache_config=cache_config,
            quant_config=quant_config,
            per_layer_sliding_window=sizes.get("window"),
            prefix=f"{prefix}.attn",
        )

    def forward(self, positions: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """``hidden``: (tokens, hidden_size), normed; the result has the same shape."""
        qkv, _ = self.qkv_proj(hidden)
        query, key, value = qkv.split([self.query_width, self.kv_width, self.kv_width], dim=-1)
        if self.q_norm is not None and self.k_norm is not None:
            heads = (len(hidden), -1, self.head_dim)
            query = self.q_norm(query.view(heads)).view(query.shape)
            key = self.k_norm(key.view(heads)).view(key.shape)
        query, key = self.rotary_emb(positions, query, key)
        output: torch.Tensor = self.o_proj(self.attn(query, key, value))[0]
        return output


class GatedMlp(nn.Module):
    """``down(act(gate(x)) * up(x))``."""

    def __init__(
        self,
        config: HeterogeneousConfig,
        sizes: Sizes,
        quant_config: QuantizationConfig | None,
        prefix: str,
    ) -> None:
        super().__init__()
        width, bias = sizes["intermediate_size"], sizes.get("bias", False)
        self.gate_up_proj = MergedColumnParallelLinear(
            config.hidden_size,
            [width, width],
            bias=bias,
            quant_config=quant_config,
            prefix=f"{prefix}.gate_up_proj",
        )
        self.down_proj = RowParallelLinear(
            width,
            config.hidden_size,
            bias=bias,
            quant_config=quant_config,
            prefix=f"{prefix}.down_proj",
        )
        self.act_fn = get_act_and_mul_fn(config.hidden_act)

    def forward(self, positions: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """``hidden``: (tokens, hidden_size), normed; the result has the same shape."""
        del positions
        output: torch.Tensor = self.down_proj(self.act_fn(self.gate_up_proj(hidden)[0]))[0]
        return output


class PlainMlp(nn.Module):
    """``down(act(up(x)))``."""

    def __init__(
        self,
        config: HeterogeneousConfig,
        sizes: Sizes,
        quant_config: QuantizationConfig | None,
        prefix: str,
    ) -> None:
        super().__init__()
        width, bias = sizes["intermediate_size"], sizes.get("bias", False)
        self.up_proj = ColumnParallelLinear(
            config.hidden_size,
            width,
            bias=bias,
            quant_config=quant_config,
            prefix=f"{prefix}.up_proj",
        )
        self.down_proj = RowParallelLinear(
            width,
            config.hidden_size,
            bias=bias,
            quant_config=quant_config,
            prefix=f"{prefix}.down_proj",
        )
        self.act_fn = get_act_fn(config.hidden_act)

    def forward(self, positions: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """``hidden``: (tokens, hidden_size), normed; the result has the same shape."""
        del positions
        output: torch.Tensor = self.down_proj(self.act_fn(self.up_proj(hidden)[0]))[0]
        return output


class SkippedBlock(nn.Module):
    """A dropped block: nothing is stored, nothing is computed."""

    def forward(
        self, positions: torch.Tensor, hidden: torch.Tensor, residual: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See ``ResidualBlock.forward``."""
        del positions
        return hidden, residual


class ResidualBlock(nn.Module):
    """Norm and one of attention and MLP; the sum with the stream is left to the next norm."""

    def __init__(
        self,
        config: HeterogeneousConfig,
        sizes: Sizes,
        cache_config: CacheConfig | None,
        quant_config: QuantizationConfig | None,
        prefix: str,
    ) -> None:
        super().__init__()
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.attention: nn.Module | None = None
        self.mlp: nn.Module | None = None
        if sizes["kind"] == "attention":
            self.attention = BlockAttention(
                config, sizes, cache_config, quant_config, f"{prefix}.attention"
            )
        else:
            mlp = GatedMlp if sizes.get("gated", True) else PlainMlp
            self.mlp = mlp(config, sizes, quant_config, f"{prefix}.mlp")

    def forward(
        self, positions: torch.Tensor, hidden: torch.Tensor, residual: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The stream is ``hidden + residual``, or ``hidden`` where residual is ``None``."""
        if residual is None:
            hidden, residual = self.norm(hidden), hidden
        else:
            hidden, residual = self.norm(hidden, residual)
        inner = self.attention if self.attention is not None else self.mlp
        assert inner is not None
        return inner(positions, hidden), residual


def _make_block(vllm_config: VllmConfig, prefix: str) -> nn.Module:
    config: HeterogeneousConfig = vllm_config.model_config.hf_config
    sizes = block_sizes(config)[int(prefix.rsplit(".", 1)[1])]
    if sizes["kind"] == "skip":
        return SkippedBlock()
    return ResidualBlock(config, sizes, vllm_config.cache_config, vllm_config.quant_config, prefix)


def check_heads(prefix: str, query_heads: int, kv_heads: int, parallel: int) -> None:
    """Refuse head counts that ``parallel`` devices cannot share.

    Raises:
        ValueError: naming the block and what would divide.
    """
    if query_heads % parallel:
        raise ValueError(
            f"{prefix}: {query_heads} query heads cannot be divided among {parallel} devices; "
            f"use a tensor parallel size that divides them"
        )
    if kv_heads % parallel and parallel % kv_heads:
        raise ValueError(
            f"{prefix}: {kv_heads} KV heads can be neither divided among nor copied to {parallel} "
            f"devices; use a tensor parallel size that divides or is a multiple of them"
        )


# Named here: with postponed annotations the decorator cannot find out which arguments are tensors.
@support_torch_compile(
    dynamic_arg_dims={
        "input_ids": 0,
        "positions": 0,
        "intermediate_tensors": 0,
        "inputs_embeds": 0,
    }
)
class HeterogeneousModel(nn.Module):
    """Embedding, residual blocks and final norm."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config: HeterogeneousConfig = vllm_config.model_config.hf_config
        first, last = get_pp_group().is_first_rank, get_pp_group().is_last_rank
        self.config = config
        self.embed_tokens = (
            VocabParallelEmbedding(
                config.vocab_size,
                config.hidden_size,
                quant_config=vllm_config.quant_config,
                prefix=f"{prefix}.embed_tokens",
            )
            if first or (config.tie_word_embeddings and last)
            else PPMissingLayer()
        )
        self.start_block, self.end_block, self.blocks = make_layers(
            config.num_hidden_layers,
            lambda prefix: _make_block(vllm_config, prefix),
            prefix=f"{prefix}.blocks",
        )
        self.norm = (
            RMSNorm(config.hidden_size, eps=config.rms_norm_eps) if last else PPMissingLayer()
        )
        self.make_empty_intermediate_tensors = make_empty_intermediate_tensors_factory(
            ["hidden_states", "residual"], config.hidden_size
        )

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        """(tokens,) to (tokens, hidden_size)."""
        embedded: torch.Tensor = self.embed_tokens(input_ids)
        return embedded

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: IntermediateTensors | None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor | IntermediateTensors:
        """Hidden states (tokens, hidden_size), or what the next pipeline rank needs."""
        residual: torch.Tensor | None = None
        if get_pp_group().is_first_rank:
            if inputs_embeds is not None:
                hidden = inputs_embeds
            else:
                assert input_ids is not None
                hidden = self.embed_input_ids(input_ids)
        else:
            assert intermediate_tensors is not None
            hidden = intermediate_tensors["hidden_states"]
            residual = intermediate_tensors["residual"]
        for block in islice(self.blocks, self.start_block, self.end_block):
            hidden, residual = block(positions, hidden, residual)
        if not get_pp_group().is_last_rank:
            # The engine passes named tensors between ranks, so an absent residual travels as zeros.
            residual = torch.zeros_like(hidden) if residual is None else residual
            return IntermediateTensors({"hidden_states": hidden, "residual": residual})
        normed: torch.Tensor = (
            self.norm(hidden) if residual is None else self.norm(hidden, residual)[0]
        )
        return normed


class AutocompressForCausalLM(nn.Module, SupportsPP):  # type: ignore[misc]  # see above
    """What ``HeterogeneousConfig`` describes, with the interfaces that vLLM asks for."""

    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_stacked={
            ".q_proj": (".qkv_proj", "q"),
            ".k_proj": (".qkv_proj", "k"),
            ".v_proj": (".qkv_proj", "v"),
        }
    )
    packed_modules_mapping = {  # noqa: RUF012  # as vLLM declares it
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
        "gate_up_proj": ["gate_proj", "up_proj"],
    }

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config: HeterogeneousConfig = vllm_config.model_config.hf_config
        self.config = config
        self.model = HeterogeneousModel(
            vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model")
        )
        if get_pp_group().is_last_rank:
            self.lm_head = ParallelLMHead(
                config.vocab_size,
                config.hidden_size,
                quant_config=vllm_config.quant_config,
                prefix=maybe_prefix(prefix, "lm_head"),
            )
            if config.tie_word_embeddings:
                self.lm_head = self.lm_head.tie_weights(self.model.embed_tokens)
        else:
            self.lm_head = PPMissingLayer()
        self.logits_processor = LogitsProcessor(config.vocab_size)
        self.make_empty_intermediate_tensors = self.model.make_empty_intermediate_tensors

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        """(tokens,) to (tokens, hidden_size)."""
        return self.model.embed_input_ids(input_ids)

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: IntermediateTensors | None = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor | IntermediateTensors:
        """Hidden states before the head."""
        hidden: torch.Tensor | IntermediateTensors = self.model(
            input_ids, positions, intermediate_tensors, inputs_embeds
        )
        return hidden

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor | None:
        """(tokens, hidden_size) to (tokens, vocab_size), on the last rank."""
        logits: torch.Tensor | None = self.logits_processor(self.lm_head, hidden_states)
        return logits

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        """Load tensors of a checkpoint, by the names in the module's description."""
        gated = [
            i
            for i, sizes in enumerate(block_sizes(self.config))
            if sizes["kind"] == "mlp" and sizes.get("gated", True)
        ]
        mapper = self.hf_to_vllm_mapper | WeightsMapper(
            orig_to_new_stacked={
                f".blocks.{i}.mlp.{name}_proj": (f".blocks.{i}.mlp.gate_up_proj", part)
                for i in gated
                for part, name in enumerate(("gate", "up"))
            }
        )
        loaded: set[str] = AutoWeightsLoader(self).load_weights(weights, mapper=mapper)
        return loaded
