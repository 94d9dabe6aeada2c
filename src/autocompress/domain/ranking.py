"""What calibration found out about a parent: which parts matter most, on every axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionRanking:
    """``kv_heads``: parent KV-head indices, most important first. ``queries[g]``: indices 0..q-1
    inside *parent* group ``g``, most important first.
    """

    kv_heads: tuple[int, ...]
    queries: tuple[tuple[int, ...], ...]
    kind: Literal["attention"] = "attention"


@dataclass(frozen=True, kw_only=True, slots=True)
class MlpRanking:
    """Parent neuron indices, most important first."""

    neurons: tuple[int, ...]
    kind: Literal["mlp"] = "mlp"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Orders for every axis. ``block_scores[i]``: the damage of leaving block ``i`` out
    (mean squared error of the logits, relative to their mean square); larger matters more.
    """

    hidden: tuple[int, ...]
    blocks: tuple[AttentionRanking | MlpRanking, ...]
    block_scores: tuple[float, ...]
    calibration_tokens: int
