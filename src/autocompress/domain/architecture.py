"""What a model is made of: a hidden size and a tuple of residual blocks, with exact counts.

Every supported model is a list of residual blocks. A Llama layer is an ``Attention`` block followed
by an ``Mlp`` block; a dropped block is ``Skip`` and keeps its place, so that block ``i`` of a
compressed model is always block ``i`` of its parent. Each block owns the RMSNorm before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """Grouped-query self-attention; ``query_heads`` is a multiple of ``kv_heads``."""

    query_heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
    kind: Literal["attention"] = "attention"

    def __post_init__(self) -> None:
        _require_positive(self, "query_heads", "kv_heads", "head_dim")
        if self.query_heads % self.kv_heads:
            raise ValueError(
                f"query_heads={self.query_heads} is not a multiple of kv_heads={self.kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} is odd; rotary embeddings need an even one")

    @property
    def queries_per_group(self) -> int:
        """Query heads that share one key-value head."""
        return self.query_heads // self.kv_heads

    def parameters(self, hidden_size: int) -> int:
        """Stored parameters, its norm included."""
        query_width = self.query_heads * self.head_dim
        kv_width = self.kv_heads * self.head_dim
        count = hidden_size + hidden_size * (query_width + 2 * kv_width) + query_width * hidden_size
        if self.qkv_bias:
            count += query_width + 2 * kv_width
        if self.output_bias:
            count += hidden_size
        if self.qk_norm:
            count += 2 * self.head_dim
        return count

    def kv_elements_per_token(self) -> int:
        """Elements of keys and values stored for one token: 2 x KV heads x head dimension."""
        return 2 * self.kv_heads * self.head_dim

    def flops_per_token(self, hidden_size: int, context_tokens: int) -> int:
        """Multiply-adds count as two; scores and weighted sum over ``context_tokens`` included."""
        query_width = self.query_heads * self.head_dim
        kv_width = self.kv_heads * self.head_dim
        projections = 2 * hidden_size * (2 * query_width + 2 * kv_width)
        seen = context_tokens if self.window is None else min(self.window, context_tokens)
        return projections + 4 * query_width * seen


@dataclass(frozen=True, kw_only=True, slots=True)
class Mlp:
    """Feed-forward block; gated (SwiGLU-like: gate, up, down) or plain (up, down)."""

    intermediate_size: int
    gated: bool = True
    bias: bool = False
    kind: Literal["mlp"] = "mlp"

    def __post_init__(self) -> None:
        _require_positive(self, "intermediate_size")

    def parameters(self, hidden_size: int) -> int:
        """Stored parameters, its norm included."""
        inward = 2 if self.gated else 1
        count = hidden_size + (inward + 1) * hidden_size * self.intermediate_size
        if self.bias:
            count += inward * self.intermediate_size + hidden_size
        return count

    def kv_elements_per_token(self) -> int:
        """An MLP stores nothing per token."""
        return 0

    def flops_per_token(self, hidden_size: int, context_tokens: int) -> int:
        """Multiply-adds count as two; independent of the context."""
        del context_tokens
        return 2 * (3 if self.gated else 2) * hidden_size * self.intermediate_size


@dataclass(frozen=True, kw_only=True, slots=True)
class Skip:
    """A block that was dropped: the residual stream passes it unchanged."""

    kind: Literal["skip"] = "skip"

    def parameters(self, hidden_size: int) -> int:
        """Nothing is stored."""
        del hidden_size
        return 0

    def kv_elements_per_token(self) -> int:
        """Nothing is stored."""
        return 0

    def flops_per_token(self, hidden_size: int, context_tokens: int) -> int:
        """Nothing is computed."""
        del hidden_size, context_tokens
        return 0


Block = Attention | Mlp | Skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """Sizes of one decoder-only model. Values compare by their fields."""

    hidden_size: int
    vocab_size: int
    tied_embeddings: bool
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        _require_positive(self, "hidden_size", "vocab_size")

    def parameters(self) -> int:
        """Parameters with shared tensors counted once: blocks, embedding, head, final norm."""
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        return embeddings + self.hidden_size + self.block_parameters()

    def block_parameters(self) -> int:
        """Parameters inside residual blocks."""
        return sum(block.parameters(self.hidden_size) for block in self.blocks)

    def weight_bytes(self, bytes_per_parameter: int) -> int:
        """Bytes of the stored weights when every tensor has one element size."""
        return self.parameters() * bytes_per_parameter

    def kv_bytes_per_token(self, bytes_per_element: int) -> int:
        """Bytes of keys and values that one token leaves in the cache, over all blocks."""
        return bytes_per_element * sum(block.kv_elements_per_token() for block in self.blocks)

    def flops_per_token(self, context_tokens: int) -> int:
        """Forward floating-point operations for one token, the output head included."""
        head = 2 * self.hidden_size * self.vocab_size
        return head + sum(b.flops_per_token(self.hidden_size, context_tokens) for b in self.blocks)

    def is_uniform(self) -> bool:
        """Whether nothing is skipped and all blocks of one kind have the same sizes."""
        kinds: dict[str, Block] = {}
        return all(
            block.kind != "skip" and kinds.setdefault(block.kind, block) == block
            for block in self.blocks
        )


def _require_positive(value: object, *names: str) -> None:
    for name in names:
        number = getattr(value, name)
        if number < 1:
            raise ValueError(f"{name}={number}: must be at least 1")
