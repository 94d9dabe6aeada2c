"""The resource penalty: against exceeding any limit, and against leaving the binding one unused."""

from __future__ import annotations

import torch
from torch import Tensor


def two_sided(utilization: Tensor, *, floor: float, over: float, under: float) -> Tensor:
    """``over * sum(relu(u - 1)) + under * relu(floor - max(u))`` for shares of limits ``u [M]``.

    The second term acts on the limit that binds: one that cannot bind would push the wrong way.
    """
    exceeded = torch.relu(utilization - 1).sum()
    unused = torch.relu(floor - utilization.max())
    return over * exceeded + under * unused
