"""The supernet: a corner is the slice, and every choice is reached by gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocompress.domain.architecture import Attention
from autocompress.domain.space import AttentionChoices, MlpChoices, SearchSpace
from autocompress.search.grid import Selection, architecture_at
from autocompress.search.router import Router
from autocompress.supernet.choices import candidate_probabilities, corner, prefix_mask
from autocompress.supernet.forward import Supernet
from autocompress.testing.models import random_model, small_parent
from autocompress.training.distil import hidden_states
from autocompress.weights.slicing import slice_model

VARIANTS = {
    "tied": {},
    "untied": {"tied": False},
    "bias": {"bias": True},
    "qk_norm": {"qk_norm": True},
}


def space_of(**variant) -> SearchSpace:
    parent = small_parent(**variant)
    return SearchSpace(
        parent=parent,
        hidden_size=(64, 48, 32),
        blocks=tuple(
            AttentionChoices(parent=b, kv_heads=(2, 1), queries_per_group=(2, 1), may_skip=True)
            if isinstance(b, Attention)
            else MlpChoices(parent=b, intermediate_size=(96, 64, 32), may_skip=True)
            for b in parent.blocks
        ),
    )


SPACES = {name: space_of(**variant) for name, variant in VARIANTS.items()}
MODELS = {
    name: random_model(space.parent, seed=3).eval().requires_grad_(False)
    for name, space in SPACES.items()
}
ROWS = torch.randint(0, 256, (2, 12), generator=torch.Generator().manual_seed(5))


def logits(states: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
    return states @ head.T


def difference(name: str, selection: Selection) -> float:
    """Relative to the size of the logits."""
    space, model = SPACES[name], MODELS[name]
    soft = corner(space, selection.hidden, selection.candidates)
    with torch.no_grad():
        here = logits(Supernet(model, space).hidden_states(ROWS, soft), model.lm_head.weight)
        sliced = slice_model(model, architecture_at(space, selection)).eval()
        there = logits(hidden_states(sliced, ROWS), sliced.lm_head.weight)
    return float((here - there).abs().max() / there.abs().max())


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(
    ("hidden", "candidates"),
    [
        (0, (0, 0, 0, 0)),
        (1, (0, 0, 0, 0)),
        (2, (0, 0, 0, 0)),
        (0, (1, 0, 0, 0)),
        (0, (2, 0, 0, 0)),
        (0, (3, 0, 0, 0)),
        (0, (4, 0, 0, 0)),
        (0, (0, 1, 0, 0)),
        (0, (0, 2, 0, 0)),
        (0, (0, 3, 0, 0)),
    ],
    ids=["whole", "h48", "h32", "1q", "1kv", "1kv1q", "no-attention", "w64", "w32", "no-mlp"],
)
def test_each_axis_at_a_corner_is_the_slice(name, hidden, candidates):
    assert difference(name, Selection(hidden=hidden, candidates=candidates)) < 1e-4


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(VARIANTS)),
    hidden=st.integers(0, 2),
    candidates=st.tuples(
        st.integers(0, 4), st.integers(0, 3), st.integers(0, 4), st.integers(0, 3)
    ),
)
def test_any_corner_is_the_slice(name, hidden, candidates):
    assert difference(name, Selection(hidden=hidden, candidates=candidates)) < 1e-4


def test_the_active_width_matters():
    """A norm over the full width would differ; the test above is not vacuous."""
    space, model = SPACES["tied"], MODELS["tied"]
    soft = corner(space, 2, (0, 0, 0, 0))
    with torch.no_grad():
        whole = corner(space, 0, (0, 0, 0, 0))
        narrow = Supernet(model, space).hidden_states(ROWS, soft)
        full = Supernet(model, space).hidden_states(ROWS, whole)
    assert float(narrow[:, 32:].abs().max()) == 0.0
    assert float((narrow[:, :32] - full[:, :32]).abs().max()) > 0.1


def test_gradients_reach_every_axis_and_every_weight():
    space = SPACES["bias"]
    model = random_model(space.parent, seed=4)
    router = Router(space)
    soft = router.sample(1.0, 1.0, torch.Generator().manual_seed(0))
    Supernet(model, space).hidden_states(ROWS, soft).square().sum().backward()
    silent = [n for n, p in router.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []
    # The bias of keys adds the same to all scores of a query, so only its gradient is nothing.
    dead = [
        name
        for name, p in model.named_parameters()
        if (p.grad is None or not p.grad.any()) and not name.endswith("k_proj.bias")
    ]
    assert dead == []


def test_joint_probabilities_sum_to_one_in_the_order_of_candidates():
    space = SPACES["tied"]
    soft = Router(space).sample(0.7, 1.0, torch.Generator().manual_seed(1))
    for block, choices in zip(soft.blocks, space.blocks, strict=True):
        joint = candidate_probabilities(block, choices)
        assert joint.shape[0] == len(list(choices.candidates()))
        assert math.isclose(float(joint.detach().sum()), 1.0, abs_tol=1e-5)


@given(weights=st.lists(st.floats(0.01, 1), min_size=3, max_size=3))
def test_a_prefix_mask_never_rises_along_the_axis(weights):
    probabilities = torch.tensor(weights) / sum(weights)
    mask = prefix_mask(probabilities, (8, 5, 2), 8)
    assert torch.all(mask[1:] <= mask[:-1] + 1e-6)
    assert math.isclose(float(mask[0]), 1.0, abs_tol=1e-5)
    assert math.isclose(float(mask[7]), float(probabilities[0]), abs_tol=1e-6)
