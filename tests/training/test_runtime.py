"""Threads and element types of training."""

from __future__ import annotations

import pytest
import torch

from autocompress.training import runtime


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    torch.use_deterministic_algorithms(False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="threads matter on a CPU alone")
@pytest.mark.parametrize(
    ("asked", "cores", "allowed", "expected"),
    [
        ("1", 8, 8, 1),
        ("3", 8, 8, 3),
        ("", 8, 8, 8),
        ("", 8, 2, 2),
        ("", None, 1, 1),
        ("many", 4, 4, 4),
        ("0", 4, 4, 4),
    ],
)
def test_threads_are_the_usable_cores_unless_asked_otherwise(
    monkeypatch, asked, cores, allowed, expected
):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr(runtime.psutil, "cpu_count", lambda logical=True: cores)

    class Process:
        def cpu_affinity(self):
            return list(range(allowed))

    monkeypatch.setattr(runtime.psutil, "Process", Process)
    assert runtime.prepare(3) == torch.device("cpu")
    assert torch.get_num_threads() == expected


@pytest.mark.parametrize(
    ("able", "expected"),
    [
        ({"avx2": True}, torch.float32),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True, "avx512_bf16": False}, torch.bfloat16),
        ({"avx512_f": True, "avx512_bf16": False}, torch.float32),
    ],
)
def test_bfloat16_is_for_processors_that_multiply_it(monkeypatch, able, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    assert runtime.compute_dtype(torch.device("cpu")) == expected
