"""The default search space."""

from __future__ import annotations

import pytest

from autocompress.contract.errors import SpecError
from autocompress.cost.space import default_space
from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.job import SearchSettings

SMOLLM2 = Architecture(
    hidden_size=576,
    vocab_size=49152,
    tied_embeddings=True,
    blocks=(Attention(query_heads=9, kv_heads=3, head_dim=64), Mlp(intermediate_size=1536)) * 30,
)


def test_choices_for_smollm2() -> None:
    space = default_space(SMOLLM2, SearchSettings())
    assert space.hidden_size == (576, 512, 448)
    attention, mlp = space.blocks[2], space.blocks[3]
    assert attention.kind == "attention"
    assert (attention.kv_heads, attention.queries_per_group) == ((3, 2, 1), (3, 2, 1))
    assert mlp.kind == "mlp"
    assert mlp.intermediate_size == (1536, 1280, 1024, 768, 576, 384)
    assert [c.may_skip for c in space.blocks[:3]] == [False, False, True]
    assert [c.may_skip for c in space.blocks[-3:]] == [True, False, False]
    assert space.largest() == SMOLLM2
    assert SMOLLM2 in space


def test_power_of_two_heads_are_halved() -> None:
    parent = Architecture(
        hidden_size=4096,
        vocab_size=1000,
        tied_embeddings=False,
        blocks=(Attention(query_heads=32, kv_heads=8, head_dim=128), Mlp(intermediate_size=14336)),
    )
    attention = default_space(parent, SearchSettings()).blocks[0]
    assert attention.kind == "attention"
    assert attention.kv_heads == (8, 4, 2)
    assert attention.queries_per_group == (4, 2, 1)


def test_settings_replace_the_sizes() -> None:
    settings = SearchSettings(hidden_sizes=(448, 576), intermediate_sizes=(512, 1024))
    space = default_space(SMOLLM2, settings)
    assert space.hidden_size == (576, 448)
    assert space.blocks[1].kind == "mlp"
    assert space.blocks[1].intermediate_size == (1024, 512)


def test_every_bad_size_is_named() -> None:
    settings = SearchSettings(hidden_sizes=(600, 500), intermediate_sizes=(0,))
    with pytest.raises(SpecError) as caught:
        default_space(SMOLLM2, settings)
    message = str(caught.value)
    assert "search.hiddenSizes: 600" in message
    assert "search.hiddenSizes: 500" in message
    assert "give for example 512" in message
    assert "search.intermediateSizes: 0" in message
