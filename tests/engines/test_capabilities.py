"""What engines can serve, and the narrowing of a space to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.contract.errors import SpecError
from autocompress.cost.space import default_space
from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.domain.deployment import Accelerator, AcceleratorKind, Engine, EngineName
from autocompress.domain.job import SearchSettings
from autocompress.domain.space import AttentionChoices
from autocompress.engines.capabilities import Capabilities, capabilities, restrict, supports

ATTENTION = Attention(query_heads=9, kv_heads=3, head_dim=64)
PARENT = Architecture(
    hidden_size=576,
    vocab_size=512,
    tied_embeddings=True,
    blocks=(ATTENTION, Mlp(intermediate_size=1536)) * 3,
)
CPU = Accelerator(kind=AcceleratorKind.CPU)


def vllm(parallel: int = 1) -> Capabilities:
    engine = Engine(name=EngineName.VLLM, version="0.32.0", tensor_parallel=parallel)
    return capabilities(engine, CPU)


def test_vllm_serves_every_export_format() -> None:
    assert vllm().export_formats == ("plain", "nemotron-nas", "autocompress")


def test_tensorrt_llm_needs_a_gpu() -> None:
    engine = Engine(name=EngineName.TENSORRT_LLM, version="1.2.1")
    with pytest.raises(SpecError, match=r"target\.accelerator\.kind: CPU: .*GPU only"):
        capabilities(engine, CPU)


@pytest.mark.parametrize(
    ("change", "served"),
    [
        ({}, True),
        ({"blocks": (Skip(), Mlp(intermediate_size=64))}, False),  # no attention at all
        ({"blocks": (replace(ATTENTION, head_dim=62),)}, False),  # no kernel for it
        ({"blocks": (ATTENTION, replace(ATTENTION, head_dim=32))}, False),  # two head sizes
        ({"blocks": (ATTENTION, Mlp(intermediate_size=65))}, False),
        ({"hidden_size": 570}, False),
    ],
)
def test_what_vllm_loads(change: dict[str, object], served: bool) -> None:
    assert supports(replace(PARENT, **change), vllm()) is served


def test_parallel_devices_must_divide_heads() -> None:
    assert supports(PARENT, vllm(3))
    assert not supports(PARENT, vllm(2))
    with pytest.raises(SpecError, match="tensorParallel"):
        restrict(default_space(PARENT, SearchSettings()), vllm(5))


def test_one_attention_block_stays() -> None:
    space = default_space(PARENT, SearchSettings())
    all_skippable = replace(
        space, blocks=tuple(replace(choices, may_skip=True) for choices in space.blocks)
    )
    kept = restrict(all_skippable, vllm())
    attention = [c for c in kept.blocks if isinstance(c, AttentionChoices)]
    assert [c.may_skip for c in attention] == [False, True, True]


@given(data=st.data(), parallel=st.sampled_from([1, 3]))
def test_whatever_a_restricted_space_holds_can_be_loaded(
    data: st.DataObject, parallel: int
) -> None:
    able = vllm(parallel)
    space = restrict(default_space(PARENT, SearchSettings()), able)
    blocks = tuple(data.draw(st.sampled_from(list(c.candidates()))) for c in space.blocks)
    hidden = data.draw(st.sampled_from(space.hidden_size))
    assert supports(space.at(hidden, blocks), able)
