from __future__ import annotations

import pytest
import torch

from autocompress.contract.errors import DataError
from autocompress.contract.progress import Silent
from autocompress.domain.architecture import Skip
from autocompress.domain.ranking import AttentionRanking, MlpRanking, Ranking
from autocompress.importance.ranking import rank
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.testing.models import random_model, small_parent
from autocompress.weights.slicing import slice_model

torch.set_num_threads(1)


def _windows(rows: int = 6, length: int = 64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (rows, length), generator=generator)


def _rank(model: HeterogeneousForCausalLM, windows: torch.Tensor | None = None) -> Ranking:
    windows = _windows() if windows is None else windows
    return rank(model, windows, batch_size=4, progress=Silent())


@pytest.mark.parametrize("variant", [{}, {"bias": True}, {"qk_norm": True}, {"tied": False}])
def test_every_axis_is_an_order_of_its_entries(variant):
    parent = small_parent(**variant)
    ranking = _rank(random_model(parent, seed=1))
    assert sorted(ranking.hidden) == list(range(64))
    assert ranking.calibration_tokens == 384
    assert len(ranking.block_scores) == len(ranking.blocks) == 4
    attention, mlp = ranking.blocks[:2]
    assert isinstance(attention, AttentionRanking)
    assert isinstance(mlp, MlpRanking)
    assert sorted(attention.kv_heads) == [0, 1]
    assert [sorted(group) for group in attention.queries] == [[0, 1], [0, 1]]
    assert sorted(mlp.neurons) == list(range(96))


def test_parts_that_add_nothing_come_last():
    model = random_model(small_parent(), seed=2)
    attention, mlp = model.model.blocks[0].attention, model.model.blocks[1].mlp
    with torch.no_grad():
        mlp.down_proj.weight[:, [3, 40]] = 0  # active neurons that nothing listens to
        mlp.up_proj.weight[[7, 41]] = 0  # neurons that are never active
        attention.o_proj.weight[:, 0:32] = 0  # both queries of group 0
        attention.o_proj.weight[:, 48:64] = 0  # query 1 of group 1
        for block in model.model.blocks:
            block.norm.weight[[5, 60]] = 0
        model.model.norm.weight[[5, 60]] = 0
    ranking = _rank(model)
    assert set(ranking.blocks[1].neurons[-4:]) == {3, 40, 7, 41}
    assert ranking.blocks[0].kv_heads == (1, 0)
    assert ranking.blocks[0].queries[1] == (0, 1)
    assert set(ranking.hidden[-2:]) == {5, 60}


def test_head_scores_are_the_norms_behind_the_output_projection():
    model = random_model(small_parent(layers=1), seed=3)
    attention = model.model.blocks[0].attention
    windows = _windows()
    inner: list[torch.Tensor] = []
    hook = attention.o_proj.register_forward_pre_hook(lambda _, args: inner.append(args[0]))
    with torch.no_grad():
        model.model(windows)
    hook.remove()
    heads = torch.cat(inner).flatten(0, 1).unflatten(1, (4, 16))
    weight = attention.o_proj.weight.unflatten(1, (4, 16))
    added = torch.einsum("thi,ohi->tho", heads, weight)
    queries = added.square().sum((0, 2))
    groups = added.unflatten(1, (2, 2)).sum(2).square().sum((0, 2))
    ranking = _rank(model, windows).blocks[0]
    assert ranking.kv_heads == tuple(groups.argsort(descending=True).tolist())
    for group in range(2):
        expected = queries[2 * group : 2 * group + 2].argsort(descending=True).tolist()
        assert ranking.queries[group] == tuple(expected)


def test_block_scores_are_the_damage_of_leaving_a_block_out():
    parent = small_parent()
    model = random_model(parent, seed=4)
    windows = _windows(rows=4)
    # A sample of 128 tokens is read: every second of these rows.
    sample = windows[::2]
    with torch.no_grad():
        model.model.blocks[2].attention.o_proj.weight *= 1e-3
        whole = model(sample).logits[:, ::2]
        expected = []
        for index in range(4):
            blocks = tuple(Skip() if i == index else b for i, b in enumerate(parent.blocks))
            part = slice_model(
                model,
                parent.__class__(
                    hidden_size=64, vocab_size=256, tied_embeddings=True, blocks=blocks
                ),
            )
            error = part(sample).logits[:, ::2] - whole
            expected.append(float(error.square().sum() / whole.square().sum()))
    scores = rank(model, windows, batch_size=2, progress=Silent()).block_scores
    assert scores == pytest.approx(expected, rel=1e-4)
    assert min(scores) == scores[2]


def test_the_same_text_gives_the_same_ranking_whatever_the_batch():
    model = random_model(small_parent(), seed=5)
    first = rank(model, _windows(), batch_size=6, progress=Silent())
    assert first == rank(model, _windows(), batch_size=6, progress=Silent())
    assert first.hidden == rank(model, _windows(), batch_size=2, progress=Silent()).hidden


@pytest.mark.parametrize("shape", [(0, 64), (1, 16), (300, 1)])
def test_text_too_short_is_refused_with_the_remedy(shape):
    model = random_model(small_parent(), seed=6)
    with pytest.raises(DataError, match=r"tokens; ranking needs at least 256.*text\.uri"):
        _rank(model, torch.zeros(shape, dtype=torch.int64))


def test_a_parent_with_damaged_weights_is_refused():
    model = random_model(small_parent(), seed=7)
    with torch.no_grad():
        model.model.blocks[0].norm.weight[0] = float("nan")
    with pytest.raises(DataError, match="not finite"):
        _rank(model)
