"""Learning-rate schedules as functions of the step."""

from __future__ import annotations

import math


def warmup_cosine(
    step: int, steps: int, *, warmup_share: float = 0.06, final_share: float = 0.1
) -> float:
    """The share of the peak rate at ``step`` (from 0): linear warm-up, then a cosine to
    ``final_share`` at the last step.
    """
    warmup = max(1, round(steps * warmup_share))
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - 1 - warmup)
    return final_share + (1 - final_share) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
