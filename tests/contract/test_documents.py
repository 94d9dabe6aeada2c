from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.contract import documents
from autocompress.contract.errors import DataError
from autocompress.contract.stage import FileEntry, Manifest, Outcome, Stage, Summary
from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.costs import MeasuredCosts, Percentiles
from autocompress.domain.ranking import AttentionRanking, MlpRanking, Ranking
from autocompress.domain.space import AttentionChoices, MlpChoices, SearchSpace

sizes = st.integers(1, 1 << 20)


@st.composite
def attention_blocks(draw):
    kv_heads = draw(st.integers(1, 16))
    return Attention(
        query_heads=kv_heads * draw(st.integers(1, 8)),
        kv_heads=kv_heads,
        head_dim=2 * draw(st.integers(1, 128)),
        qkv_bias=draw(st.booleans()),
        output_bias=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        window=draw(st.none() | sizes),
    )


mlp_blocks = st.builds(Mlp, intermediate_size=sizes, gated=st.booleans(), bias=st.booleans())
architectures = st.builds(
    Architecture,
    hidden_size=sizes,
    vocab_size=sizes,
    tied_embeddings=st.booleans(),
    blocks=st.lists(attention_blocks() | mlp_blocks | st.just(Skip()), max_size=8).map(tuple),
)

PERCENTILES = Percentiles(mean=1.5, p50=1, p90=2, p95=3, p99=4)
EXAMPLES = [
    MeasuredCosts(
        time_to_first_token=PERCENTILES,
        time_per_output_token=PERCENTILES,
        end_to_end_latency=PERCENTILES,
        output_tokens_per_second=1e-300,
        memory_bytes=1 << 60,
    ),
    Budget(limits=(Limit(metric=Metric.MEMORY, percent_of_parent=70),)),
    Ranking(
        hidden=(1, 0),
        blocks=(
            AttentionRanking(kv_heads=(1, 0), queries=((0, 1), (1, 0))),
            MlpRanking(neurons=(2, 0, 1)),
        ),
        block_scores=(0.1, 0.30000000000000004),
        calibration_tokens=7,
    ),
    SearchSpace(
        parent=Architecture(hidden_size=4, vocab_size=8, tied_embeddings=True, blocks=(Skip(),)),
        hidden_size=(4, 2),
        blocks=(
            AttentionChoices(
                parent=Attention(query_heads=4, kv_heads=2, head_dim=4),
                kv_heads=(2, 1),
                queries_per_group=(2, 1),
                may_skip=True,
            ),
            MlpChoices(parent=Mlp(intermediate_size=8), intermediate_size=(8,), may_skip=False),
        ),
    ),
    Manifest(
        kind="profile",
        input_digest="sha256:0",
        output_digest="sha256:1",
        files={"model/ä.bin": FileEntry(digest="sha256:2", size_bytes=0)},
        summary=Summary(
            stage=Stage.PROFILE,
            outcome=Outcome.BUDGET_ALREADY_MET,
            figures={"seconds": 2.0, "count": 3, "name": "4"},
        ),
    ),
]


@given(architectures)
def test_every_architecture_survives_the_round_trip(architecture):
    data = documents.dump(architecture)
    assert documents.load(Architecture, data, name="a.json") == architecture
    assert documents.dump(documents.load(Architecture, data, name="a.json")) == data


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_what_stages_write_survives_the_round_trip(value):
    again = documents.load(type(value), documents.dump(value), name="x.json")
    assert again == value
    assert documents.dump(again) == documents.dump(value)


def test_figures_keep_their_number_type():
    summary = Summary(stage=Stage.SEARCH, figures={"a": 2.0, "b": 2, "c": "2"})
    again = documents.load(Summary, documents.dump(summary), name="s.json")
    assert [type(again.figures[key]) for key in "abc"] == [float, int, str]


def test_equal_values_give_equal_bytes():
    assert documents.dump(Limit(metric=Metric.MEMORY, bound=1)) == documents.dump(
        Limit(metric=Metric.MEMORY, bound=1.0)
    )
    one = Summary(stage=Stage.SEARCH, figures={"a": 1, "b": 2})
    other = Summary(stage=Stage.SEARCH, figures={"b": 2, "a": 1})
    assert documents.dump(one) == documents.dump(other)


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (b'{"hidden_size": 4}', "a.json is not a valid Architecture: vocab_size: Field required"),
        (
            b'{"hidden_size":4,"vocab_size":8,"tied_embeddings":true,"blocks":[],"colour":1}',
            "colour: Unexpected keyword argument",
        ),
        (
            b'{"hidden_size":4,"vocab_size":8,"tied_embeddings":true,'
            b'"blocks":[{"kind":"skip"},{"kind":"mlp","intermediate_size":4,"colour":1}]}',
            "Architecture: blocks.1.colour: Unexpected keyword argument",
        ),
        (
            b'{"hidden_size":4,"vocab_size":8,"tied_embeddings":true,"blocks":[{"kind":"magic"}]}',
            "blocks.0.kind: Input should be 'attention' or 'mlp' or 'skip'",
        ),
        (
            b'{"hidden_size":4,"vocab_size":8,"tied_embeddings":true,'
            b'"blocks":[{"kind":"mlp","intermediate_size":"4"}]}',
            "blocks.0.intermediate_size: Input should be a valid integer",
        ),
        (
            b'{"hidden_size":0,"vocab_size":8,"tied_embeddings":true,"blocks":[]}',
            "hidden_size=0: must be at least 1",
        ),
        (b"{}{}", "document: Invalid JSON"),
        (b"{},{}", "Tuple should have at most 1 item"),
        (b"", "a.json is not a valid Architecture"),
        (b"\xff\x00", "a.json is not a valid Architecture"),
    ],
)
def test_a_document_that_does_not_fit_is_refused_by_field(document, fault):
    with pytest.raises(DataError) as caught:
        documents.load(Architecture, document, name="a.json")
    assert fault in str(caught.value)


def test_every_fault_is_told_once():
    document = b'{"hidden_size":"4","vocab_size":8,"tied_embeddings":1,"blocks":[{"kind":"x"}]}'
    with pytest.raises(DataError) as caught:
        documents.load(Architecture, document, name="a.json")
    assert str(caught.value).count("; ") == 2


def test_numbers_that_are_not_finite_are_neither_written_nor_read():
    @dataclass(frozen=True)
    class Reading:
        seconds: float

    with pytest.raises(ValueError):
        documents.dump(Reading(float("nan")))
    with pytest.raises(DataError):
        documents.load(Reading, b'{"seconds": NaN}', name="r.json")
