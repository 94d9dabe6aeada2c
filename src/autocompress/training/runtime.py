"""Where and how training computes: the device, its threads, and reproducible kernels."""

from __future__ import annotations

import psutil
import torch


def prepare(seed: int) -> torch.device:
    """Seed torch, ask for deterministic kernels, and return the device to train on.

    On a CPU, one thread for each physical core: results depend on the number of threads, and
    hyper-threads only slow matrix products down.
    """
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    if torch.cuda.is_available():
        return torch.device("cuda")
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    torch.set_num_threads(min(cores, len(psutil.Process().cpu_affinity())))
    return torch.device("cpu")
