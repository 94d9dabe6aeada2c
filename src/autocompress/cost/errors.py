"""How far predictions are from measurements. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autocompress.domain.records import ErrorSummary, HeldOutPoint, HeldOutReport


def held_out_report(points: Sequence[HeldOutPoint]) -> HeldOutReport:
    """Relative errors of ``points`` (at least one)."""
    return HeldOutReport(
        points=tuple(points),
        prefill=_summary(
            [(p.predicted_prefill_seconds, p.measured_prefill_seconds) for p in points]
        ),
        decode=_summary([(p.predicted_decode_seconds, p.measured_decode_seconds) for p in points]),
        memory=_summary([(p.predicted_memory_bytes, p.measured_memory_bytes) for p in points]),
        decode_rank_correlation=rank_correlation(
            [p.predicted_decode_seconds for p in points],
            [p.measured_decode_seconds for p in points],
        ),
    )


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rho, the correlation of ranks; 1 where there is nothing to order."""
    if len(first) < 2:
        return 1.0
    try:
        return _spearman(first, second)
    except statistics.StatisticsError:  # all of one value
        return 1.0


def _summary(pairs: Sequence[tuple[float, float]]) -> ErrorSummary:
    errors = [abs(predicted - measured) / measured for predicted, measured in pairs]
    return ErrorSummary(median=statistics.median(errors), worst=max(errors))


def _spearman(first: Sequence[float], second: Sequence[float]) -> float:
    # statistics.correlation(method="ranked") came with Python 3.12.
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 0; equal values share the mean of theirs."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]
