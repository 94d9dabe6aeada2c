"""Ranking every axis of a model by activations, in one pass over calibration text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from autocompress.contract.errors import DataError
from autocompress.contract.progress import Progress
from autocompress.domain.ranking import AttentionRanking, MlpRanking, Ranking
from autocompress.importance.activations import ActivationScores, watch
from autocompress.importance.depth import block_damage
from autocompress.models.heterogeneous import HeterogeneousForCausalLM

#: Fewer tokens than this say too little about which of several hundred channels matter.
MIN_TOKENS = 256


def rank(
    model: HeterogeneousForCausalLM, windows: Tensor, *, batch_size: int, progress: Progress
) -> Ranking:
    """Rank hidden channels, heads, neurons and blocks on ``windows``, int64 ``[n, s]``.

    Scores of hidden channels: sum over all norms and tokens of ``|norm(x)|`` (Nemotron Elastic,
    2511.16664). Neurons: ``|a_i| * ||W_down[:, i]||`` (Puzzle, 2411.19146). Query heads and KV
    groups: norm of what they add behind ``o_proj``. The last three are root mean squares over
    tokens: on SmolLM2 with two thirds of all neurons that loses 12 % less (KL) than the mean, which
    thinks little of neurons that fire seldom and hard. Blocks: damage to the logits when one is
    left out. Equal scores keep the model's own order, so the result depends on nothing but the
    arguments.

    Raises:
        DataError: the text is too short to rank by, or a score is not finite.
    """
    if windows.numel() < MIN_TOKENS or windows.shape[-1] < 2:
        raise DataError(
            f"calibration text has {windows.numel()} tokens; ranking needs at least {MIN_TOKENS}: "
            "give more text in text.uri, or raise search.calibrationTokens"
        )
    progress.task("ranking by activations", windows.numel())
    with watch(model) as scores, torch.no_grad():
        for batch in windows.split(batch_size):
            model.model(batch.to(model.device))
            progress.advance(batch.numel())
    _require_finite(scores)
    damage = block_damage(model, windows, progress=progress)
    return Ranking(
        hidden=_order(scores.hidden),
        blocks=tuple(_rank_block(scores, index) for index in range(len(model.model.blocks))),
        block_scores=damage,
        calibration_tokens=windows.numel(),
    )


def _rank_block(scores: ActivationScores, index: int) -> AttentionRanking | MlpRanking:
    if index in scores.neurons:
        return MlpRanking(neurons=_order(scores.neurons[index]))
    return AttentionRanking(
        kv_heads=_order(scores.groups[index]),
        queries=tuple(_order(group) for group in scores.queries[index]),
    )


def _order(scores: Tensor) -> tuple[int, ...]:
    indices: Sequence[int] = torch.argsort(scores, descending=True, stable=True).tolist()
    return tuple(indices)


def _require_finite(scores: ActivationScores) -> None:
    everything = [scores.hidden, *scores.neurons.values(), *scores.groups.values()]
    if not all(bool(torch.isfinite(item).all()) for item in everything):
        raise DataError(
            "the parent's activations are not finite on the calibration text; its weights may be "
            "damaged, or need a wider precision (target.precision: FP32)"
        )
