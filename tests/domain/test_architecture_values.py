from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip

widths = st.integers(1, 512)


@st.composite
def attentions(draw):
    kv_heads = draw(st.integers(1, 8))
    return Attention(
        query_heads=kv_heads * draw(st.integers(1, 8)),
        kv_heads=kv_heads,
        head_dim=2 * draw(st.integers(1, 64)),
        qkv_bias=draw(st.booleans()),
        output_bias=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        window=draw(st.none() | st.integers(1, 4096)),
    )


mlps = st.builds(Mlp, intermediate_size=widths, gated=st.booleans(), bias=st.booleans())
architectures = st.builds(
    Architecture,
    hidden_size=widths,
    vocab_size=widths,
    tied_embeddings=st.booleans(),
    blocks=st.lists(attentions() | mlps | st.just(Skip()), max_size=6).map(tuple),
)


def tensors(block, hidden):
    """Shapes of a block's tensors, written down one by one: an independent count."""
    if isinstance(block, Skip):
        return []
    shapes = [(hidden,)]
    if isinstance(block, Mlp):
        shapes += [(hidden, block.intermediate_size)] * (2 if block.gated else 1)
        shapes += [(block.intermediate_size, hidden)]
        if block.bias:
            shapes += [(block.intermediate_size,)] * (2 if block.gated else 1) + [(hidden,)]
        return shapes
    query, kv = block.query_heads * block.head_dim, block.kv_heads * block.head_dim
    shapes += [(hidden, query), (hidden, kv), (hidden, kv), (query, hidden)]
    shapes += [(query,), (kv,), (kv,)] if block.qkv_bias else []
    shapes += [(hidden,)] if block.output_bias else []
    shapes += [(block.head_dim,)] * 2 if block.qk_norm else []
    return shapes


def size(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


@given(architectures)
def test_parameters_are_the_sizes_of_all_tensors(architecture):
    hidden = architecture.hidden_size
    shapes = [shape for block in architecture.blocks for shape in tensors(block, hidden)]
    shapes += [(architecture.vocab_size, hidden), (hidden,)]
    shapes += [] if architecture.tied_embeddings else [(architecture.vocab_size, hidden)]
    assert architecture.parameters() == sum(map(size, shapes))
    assert architecture.weight_bytes(2) == 2 * architecture.parameters()


@given(architectures, st.integers(1, 1000))
def test_operations_are_two_for_each_weight_of_a_product_plus_attention(architecture, context):
    matrices = [
        shape
        for block in architecture.blocks
        for shape in tensors(block, architecture.hidden_size)
        if len(shape) == 2
    ]
    scores = sum(
        4 * block.query_heads * block.head_dim * min(block.window or context, context)
        for block in architecture.blocks
        if isinstance(block, Attention)
    )
    head = 2 * architecture.hidden_size * architecture.vocab_size
    assert architecture.flops_per_token(context) == head + scores + 2 * sum(map(size, matrices))


@given(architectures)
def test_keys_and_values_are_stored_by_attention_alone(architecture):
    expected = sum(
        2 * block.kv_heads * block.head_dim
        for block in architecture.blocks
        if isinstance(block, Attention)
    )
    assert architecture.kv_bytes_per_token(2) == 2 * expected


@given(architectures.filter(lambda a: a.blocks), st.data())
def test_skipping_a_block_removes_what_it_had_and_nothing_else(architecture, data):
    index = data.draw(st.integers(0, len(architecture.blocks) - 1))
    blocks = list(architecture.blocks)
    blocks[index] = Skip()
    smaller = replace(architecture, blocks=tuple(blocks))
    assert architecture.parameters() - smaller.parameters() == architecture.blocks[
        index
    ].parameters(architecture.hidden_size)
    assert not smaller.is_uniform()


def test_the_count_of_smollm2_is_its_published_one():
    layer = (
        Attention(query_heads=9, kv_heads=3, head_dim=64),
        Mlp(intermediate_size=1536),
    )
    parent = Architecture(
        hidden_size=576, vocab_size=49152, tied_embeddings=True, blocks=layer * 30
    )
    assert parent.parameters() == 134_515_008
    assert parent.kv_bytes_per_token(2) == 23_040
    assert parent.is_uniform()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Attention(query_heads=0, kv_heads=1, head_dim=2), "query_heads=0"),
        (lambda: Attention(query_heads=9, kv_heads=2, head_dim=2), "query_heads=9 is not a mult"),
        (lambda: Attention(query_heads=2, kv_heads=2, head_dim=3), "head_dim=3 is odd"),
        (lambda: Mlp(intermediate_size=-1), "intermediate_size=-1: must be at least 1"),
        (
            lambda: Architecture(hidden_size=0, vocab_size=1, tied_embeddings=True, blocks=()),
            "hidden_size=0",
        ),
        (
            lambda: Architecture(hidden_size=1, vocab_size=0, tied_embeddings=True, blocks=()),
            "vocab_size=0",
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()


def test_values_are_values():
    one, other = Mlp(intermediate_size=4), Mlp(intermediate_size=4)
    assert one == other
    assert len({one, other, Skip()}) == 2
    with pytest.raises(FrozenInstanceError):
        one.intermediate_size = 5
