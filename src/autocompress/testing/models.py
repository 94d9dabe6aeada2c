"""Small random models for tests: architectures of mixed blocks, weights without trivial values."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import torch

from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip
from autocompress.domain.ranking import AttentionRanking, MlpRanking, Ranking
from autocompress.families.traits import Traits
from autocompress.models.checkpoint import build
from autocompress.models.heterogeneous import HeterogeneousForCausalLM

HEAD_DIM = 16


def small_parent(
    *,
    layers: int = 2,
    tied: bool = True,
    bias: bool = False,
    qk_norm: bool = False,
    vocab_size: int = 256,
) -> Architecture:
    """Hidden size 64, 4 query heads and 2 KV heads of 16, MLP of 96 neurons."""
    attention = Attention(
        query_heads=4,
        kv_heads=2,
        head_dim=HEAD_DIM,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=qk_norm,
    )
    mlp = Mlp(intermediate_size=96, bias=bias)
    return Architecture(
        hidden_size=64,
        vocab_size=vocab_size,
        tied_embeddings=tied,
        blocks=(attention, mlp) * layers,
    )


def random_part(parent: Architecture, generator: random.Random) -> Architecture:
    """Some architecture that ``parent`` contains: any hidden size, heads, widths and skips.

    At least one attention block is kept, which engines need.
    """
    blocks = [_random_block(block, generator) for block in parent.blocks]
    places = [i for i, block in enumerate(parent.blocks) if isinstance(block, Attention)]
    if not any(isinstance(block, Attention) for block in blocks):
        place = generator.choice(places)
        blocks[place] = parent.blocks[place]
    hidden_size = generator.choice([size for size in (32, 48, 64) if size <= parent.hidden_size])
    return replace(parent, hidden_size=hidden_size, blocks=tuple(blocks))


def random_ranking(parent: Architecture, generator: random.Random) -> Ranking:
    """Some order on every axis."""
    blocks: list[AttentionRanking | MlpRanking] = []
    for block in parent.blocks:
        if isinstance(block, Attention):
            blocks.append(
                AttentionRanking(
                    kv_heads=_shuffled(block.kv_heads, generator),
                    queries=tuple(
                        _shuffled(block.queries_per_group, generator) for _ in range(block.kv_heads)
                    ),
                )
            )
        elif isinstance(block, Mlp):
            blocks.append(MlpRanking(neurons=_shuffled(block.intermediate_size, generator)))
    return Ranking(
        hidden=_shuffled(parent.hidden_size, generator),
        blocks=tuple(blocks),
        block_scores=tuple(generator.random() for _ in parent.blocks),
        calibration_tokens=1,
    )


def random_model(
    architecture: Architecture,
    *,
    seed: int,
    traits: Traits | None = None,
    dtype: torch.dtype = torch.float32,
) -> HeterogeneousForCausalLM:
    """A model whose every tensor matters: norms are not one, biases not zero."""
    generator = torch.Generator().manual_seed(seed)
    model = build(architecture, traits or Traits(), dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("norm.weight"):
                noise = 1 + 0.1 * noise
            elif name.endswith("bias"):
                noise = 0.1 * noise
            else:
                noise = noise / math.sqrt(parameter.shape[-1])
            parameter.copy_(noise)
    return model


def _random_block(block: Block, generator: random.Random) -> Block:
    if generator.random() < 0.25:
        return Skip()
    if isinstance(block, Attention):
        kv_heads = generator.randint(1, block.kv_heads)
        queries = generator.randint(1, block.queries_per_group)
        return replace(block, kv_heads=kv_heads, query_heads=kv_heads * queries)
    if isinstance(block, Mlp):
        width = generator.randint(1, block.intermediate_size // 8) * 8
        return replace(block, intermediate_size=width)
    return block


def _shuffled(count: int, generator: random.Random) -> tuple[int, ...]:
    return tuple(generator.sample(range(count), count))
