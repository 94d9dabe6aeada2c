"""Where and how training computes: the device, its threads, and reproducible kernels."""

from __future__ import annotations

import os

import psutil
import torch


def prepare(seed: int) -> torch.device:
    """Seed torch, ask for deterministic kernels, and return the device to train on.

    On a CPU, one thread for each physical core that this process may use, unless
    ``OMP_NUM_THREADS`` says otherwise: results depend on the number of threads, hyper-threads only
    slow matrix products down, and two programs with threads on the same cores starve each other.
    """
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    if torch.cuda.is_available():
        return torch.device("cuda")
    asked = os.environ.get("OMP_NUM_THREADS", "")
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    usable = min(cores, len(psutil.Process().cpu_affinity()))
    torch.set_num_threads(int(asked) if asked.isdecimal() and int(asked) else usable)
    return torch.device("cpu")


def compute_dtype(device: torch.device) -> torch.dtype:
    """The element type to train in: bfloat16 where the device multiplies it, else float32.

    A processor without such instructions emulates bfloat16, several times slower than float32.
    """
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    able = torch.cpu.get_capabilities()
    fast = any(able.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return torch.bfloat16 if fast else torch.float32
