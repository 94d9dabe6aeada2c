"""A reordered parent is its parent; a slice holds the first entries of every axis."""

from __future__ import annotations

import dataclasses
import random
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.domain.ranking import AttentionRanking, MlpRanking, Ranking
from autocompress.models.checkpoint import load, read_architecture, save
from autocompress.models.layout import tensor_shapes
from autocompress.testing.models import random_model, random_part, random_ranking, small_parent
from autocompress.weights.reorder import reorder
from autocompress.weights.slicing import slice_model, slice_reordered

_PARENTS = {
    "tied": small_parent(tied=True),
    "untied": small_parent(tied=False),
    "biases": small_parent(tied=True, bias=True),
    "qk-norm": small_parent(tied=False, qk_norm=True),
    "many groups": dataclasses.replace(
        small_parent(),
        blocks=(
            Attention(query_heads=12, kv_heads=4, head_dim=16, qkv_bias=True),
            Mlp(intermediate_size=64, gated=False, bias=True),
        ),
    ),
}


def _identity(parent: Architecture) -> Ranking:
    blocks: list[AttentionRanking | MlpRanking] = []
    for block in parent.blocks:
        if isinstance(block, Attention):
            ranks = tuple(range(block.queries_per_group))
            blocks.append(
                AttentionRanking(
                    kv_heads=tuple(range(block.kv_heads)), queries=(ranks,) * block.kv_heads
                )
            )
        elif isinstance(block, Mlp):
            blocks.append(MlpRanking(neurons=tuple(range(block.intermediate_size))))
    return Ranking(
        hidden=tuple(range(parent.hidden_size)),
        blocks=tuple(blocks),
        block_scores=(1.0,) * len(blocks),
        calibration_tokens=1,
    )


def _one_axis(axis: str, parent: Architecture, ranking: Ranking) -> Ranking:
    """``ranking`` on one axis, the parent's order on all others."""
    plain = _identity(parent)
    if axis == "hidden":
        return dataclasses.replace(plain, hidden=ranking.hidden)
    field = {"kv": "kv_heads", "queries": "queries", "neurons": "neurons"}[axis]
    blocks = tuple(
        dataclasses.replace(own, **{field: getattr(new, field)}) if hasattr(own, field) else own
        for own, new in zip(plain.blocks, ranking.blocks, strict=True)
    )
    return dataclasses.replace(plain, blocks=blocks)


def _ids() -> torch.Tensor:
    return torch.randint(0, 256, (2, 20), generator=torch.Generator().manual_seed(3))


def _assert_same_logits(one: Path, other: Path) -> None:
    with torch.no_grad():
        want = load(one, torch.float32)(_ids()).logits
        got = load(other, torch.float32)(_ids()).logits
    assert (want - got).abs().max() <= 1e-4 * want.abs().max()


@pytest.mark.parametrize("axis", ["hidden", "kv", "queries", "neurons", "all"])
@pytest.mark.parametrize("name", list(_PARENTS))
def test_a_reordered_parent_is_its_parent(name, axis, tmp_path):
    parent = _PARENTS[name]
    save(random_model(parent, seed=1), tmp_path / "parent", companions=None)
    ranking = random_ranking(parent, random.Random(7))
    if axis != "all":
        ranking = _one_axis(axis, parent, ranking)
    reorder(tmp_path / "parent", ranking, tmp_path / "reordered")

    assert read_architecture(tmp_path / "reordered")[0] == parent
    _assert_same_logits(tmp_path / "parent", tmp_path / "reordered")
    before = (tmp_path / "parent" / "model.safetensors").read_bytes()
    after = (tmp_path / "reordered" / "model.safetensors").read_bytes()
    assert before != after


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(list(_PARENTS)))
def test_any_order_keeps_the_logits(seed, name):
    parent = _PARENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        save(random_model(parent, seed=seed % 1000), root / "parent", companions=None)
        reorder(root / "parent", random_ranking(parent, random.Random(seed)), root / "reordered")
        _assert_same_logits(root / "parent", root / "reordered")


def test_a_family_checkpoint_is_reordered_into_the_canonical_form(tmp_path):
    import transformers

    config = transformers.Qwen3Config(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "parent")
    parent, traits = read_architecture(tmp_path / "parent")
    ranking = random_ranking(parent, random.Random(3))
    reorder(tmp_path / "parent", ranking, tmp_path / "reordered")
    assert read_architecture(tmp_path / "reordered") == (parent, traits)
    _assert_same_logits(tmp_path / "parent", tmp_path / "reordered")


def test_a_ranking_of_another_model_is_refused(tmp_path):
    parent = small_parent()
    save(random_model(parent, seed=1), tmp_path / "parent", companions=None)
    good = _identity(parent)
    for ranking, message in (
        (dataclasses.replace(good, hidden=good.hidden[:-1]), "hidden is not an order of 0 to 63"),
        (dataclasses.replace(good, blocks=good.blocks[:-1]), "has 3 blocks, the parent 4"),
        (dataclasses.replace(good, blocks=good.blocks[::-1]), "block 0 is for mlp"),
        (
            dataclasses.replace(good, blocks=(*good.blocks[:3], MlpRanking(neurons=(0,)))),
            "block 3 neurons is not an order of 0 to 95",
        ),
    ):
        with pytest.raises(DataError, match=message):
            reorder(tmp_path / "parent", ranking, tmp_path / "reordered")


def _reference_slice(parent, part, index, name, tensor):  # noqa: PLR0911  # a case each
    """Plain indexing of one tensor of an attention or MLP block, apart from the code under test."""
    whole, kept = parent.blocks[index], part.blocks[index]
    hidden = part.hidden_size
    if name == "norm.weight":
        return tensor[:hidden]
    if isinstance(whole, Attention):
        group = (whole.kv_heads, whole.queries_per_group, whole.head_dim)
        if name.startswith("attention.q_proj"):
            rows = tensor.view(*group, *tensor.shape[1:])
            rows = rows[: kept.kv_heads, : kept.queries_per_group].flatten(0, 2)
            return rows[:, :hidden] if tensor.dim() == 2 else rows
        if name.startswith(("attention.k_proj", "attention.v_proj")):
            rows = tensor[: kept.kv_heads * kept.head_dim]
            return rows[:, :hidden] if tensor.dim() == 2 else rows
        if name == "attention.o_proj.weight":
            columns = tensor.view(-1, *group)[:, : kept.kv_heads, : kept.queries_per_group]
            return columns.flatten(1)[:hidden]
        return tensor[:hidden] if name == "attention.o_proj.bias" else tensor
    width = kept.intermediate_size
    if name == "mlp.down_proj.weight":
        return tensor[:hidden, :width]
    if name == "mlp.down_proj.bias":
        return tensor[:hidden]
    return tensor[:width, :hidden] if tensor.dim() == 2 else tensor[:width]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(list(_PARENTS)))
def test_a_slice_has_the_first_entries_of_every_axis(seed, name):
    parent = _PARENTS[name]
    part = random_part(parent, random.Random(seed))
    model = random_model(parent, seed=seed % 1000)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        save(model, root / "parent", companions=None)
        slice_reordered(root / "parent", part, root / "part")
        assert read_architecture(root / "part")[0] == part
        written = load(root / "part", torch.float32)
    in_memory = slice_model(model, part)
    whole = dict(model.named_parameters())
    assert {n: tuple(p.shape) for n, p in written.named_parameters()} == dict(tensor_shapes(part))
    for tensor_name, parameter in written.named_parameters():
        assert torch.equal(parameter, in_memory.get_parameter(tensor_name))
        pieces = tensor_name.split(".")
        if pieces[1] == "blocks":
            want = _reference_slice(
                parent, part, int(pieces[2]), ".".join(pieces[3:]), whole[tensor_name]
            )
        else:
            want = whole[tensor_name][..., : part.hidden_size]
        assert torch.equal(parameter, want), tensor_name


def test_what_the_parent_does_not_contain_is_refused():
    parent = small_parent()
    model = random_model(parent, seed=1)
    wide = dataclasses.replace(parent.blocks[1], intermediate_size=97)
    for part, message in (
        (dataclasses.replace(parent, hidden_size=65), "hidden_size=65"),
        (dataclasses.replace(parent, vocab_size=255), "vocabulary"),
        (dataclasses.replace(parent, blocks=parent.blocks[:2]), "2 blocks"),
        (dataclasses.replace(parent, blocks=(Skip(), wide, Skip(), Skip())), "block 1"),
    ):
        with pytest.raises(ValueError, match=message):
            slice_model(model, part)
