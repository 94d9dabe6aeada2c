"""Distillation: it learns, it resumes bit for bit, and it stops with a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from autocompress.contract.errors import DataError, StoppedError
from autocompress.contract.progress import Silent
from autocompress.domain.architecture import Mlp
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.testing.models import random_model, small_parent
from autocompress.training.checkpoint import newest_checkpoint
from autocompress.training.distil import DistillationPlan, distil
from autocompress.training.stopping import StopRequest
from autocompress.weights.slicing import slice_model


class StopAfter(Silent):
    """Asks to stop once so many steps were done."""

    def __init__(self, stop: StopRequest, steps: int) -> None:
        self.stop, self.left = stop, steps

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.left -= int(amount)
        if self.left <= 0:
            self.stop.request()


@pytest.fixture
def teacher() -> HeterogeneousForCausalLM:
    return random_model(small_parent(), seed=0).to(torch.bfloat16).eval()


def student_of(teacher: HeterogeneousForCausalLM) -> HeterogeneousForCausalLM:
    parent = teacher.architecture
    blocks = (parent.blocks[0], Mlp(intermediate_size=32), *parent.blocks[2:])
    return slice_model(teacher, replace(parent, blocks=blocks))


def plan(steps: int = 12, **changes) -> DistillationPlan:
    generator = torch.Generator().manual_seed(1)
    fields = {
        "rows": torch.randint(0, 256, (2 * steps, 16), generator=generator),
        "validation_rows": torch.randint(0, 256, (4, 16), generator=generator),
        "rows_per_step": 2,
        "learning_rate": 1e-2,
        "train_embeddings": False,
        "checkpoint_every_steps": 5,
    }
    return DistillationPlan(**(fields | changes))


def run(teacher, folder: Path, progress=None, stop=None, **changes):
    student = student_of(teacher)
    points = distil(
        student,
        teacher,
        plan(**changes),
        checkpoints=folder,
        progress=progress or Silent(),
        stop=stop or StopRequest(),
    )
    return student, points


def weights(model: HeterogeneousForCausalLM) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_the_student_comes_nearer_to_its_teacher(teacher, tmp_path):
    _, points = run(teacher, tmp_path, steps=60, learning_rate=2e-3)
    losses = [p.validation_loss for p in points if p.validation_loss is not None]
    assert losses[-1] < 0.9 * losses[0]
    assert points[0].step == 0
    assert points[-1].step == 60
    assert points[-1].tokens == 60 * 2 * 16


@pytest.mark.parametrize("train_embeddings", [False, True])
@pytest.mark.parametrize("stop_after", [1, 5, 7, 11])
def test_a_run_that_was_stopped_ends_like_one_that_was_not(
    teacher, tmp_path, stop_after, train_embeddings
):
    whole, curve = run(teacher, tmp_path / "whole", train_embeddings=train_embeddings)
    stop = StopRequest()
    with pytest.raises(StoppedError, match=f"stopped after step {stop_after} of 12"):
        run(
            teacher,
            tmp_path / "parts",
            StopAfter(stop, stop_after),
            stop,
            train_embeddings=train_embeddings,
        )
    resumed, resumed_curve = run(teacher, tmp_path / "parts", train_embeddings=train_embeddings)
    assert resumed_curve == curve
    expected = weights(whole)
    for name, tensor in weights(resumed).items():
        assert torch.equal(tensor, expected[name]), name


def test_a_killed_run_goes_on_from_its_last_checkpoint(teacher, tmp_path):
    whole, curve = run(teacher, tmp_path / "whole")

    class Killed(Silent):
        done = 0

        def advance(self, amount: float = 1, note: str = "") -> None:
            self.done += 1
            if self.done == 10:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(teacher, tmp_path / "parts", Killed())
    found = newest_checkpoint(tmp_path / "parts")
    assert found is not None
    assert found[0].step == 5
    resumed, resumed_curve = run(teacher, tmp_path / "parts")
    assert resumed_curve == curve
    expected = weights(whole)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights(resumed).items())


def test_a_damaged_checkpoint_is_passed_over(teacher, tmp_path):
    stop = StopRequest()
    with pytest.raises(StoppedError):
        run(teacher, tmp_path, StopAfter(stop, 11), stop)
    newest = max(tmp_path.glob("step-*"))
    data = bytearray((newest / "tensors.safetensors").read_bytes())
    data[-1] ^= 1
    (newest / "tensors.safetensors").write_bytes(data)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found[0].step == 10


@pytest.mark.parametrize("train_embeddings", [False, True])
def test_only_what_the_plan_says_is_trained(teacher, tmp_path, train_embeddings):
    before = weights(student_of(teacher))
    student, _ = run(teacher, tmp_path, train_embeddings=train_embeddings)
    changed = {n for n, t in weights(student).items() if not torch.equal(t, before[n])}
    assert ("model.embed_tokens.weight" in changed) == train_embeddings
    assert "model.blocks.1.mlp.down_proj.weight" in changed


def test_a_loss_that_is_not_finite_is_said_before_anything_moves(teacher, tmp_path):
    student = student_of(teacher)
    with torch.no_grad():
        student.model.norm.weight.fill_(float("nan"))
    before = weights(student)
    with pytest.raises(DataError, match=r"lower recovery\.learningRate"):
        distil(
            student,
            teacher,
            plan(),
            checkpoints=tmp_path,
            progress=Silent(),
            stop=StopRequest(),
        )
    assert all(torch.equal(t, before[n]) or t.isnan().any() for n, t in weights(student).items())
