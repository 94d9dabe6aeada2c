from dataclasses import replace

from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.domain.space import AttentionChoices, MlpChoices, SearchSpace

ATTENTION = Attention(query_heads=4, kv_heads=2, head_dim=8, qk_norm=True)
MLP = Mlp(intermediate_size=32)
PARENT = Architecture(hidden_size=32, vocab_size=64, tied_embeddings=True, blocks=(ATTENTION, MLP))
SPACE = SearchSpace(
    parent=PARENT,
    hidden_size=(32, 16),
    blocks=(
        AttentionChoices(
            parent=ATTENTION, kv_heads=(2, 1), queries_per_group=(2, 1), may_skip=False
        ),
        MlpChoices(parent=MLP, intermediate_size=(32, 16), may_skip=True),
    ),
)


def test_the_ends_of_a_space_are_in_it():
    assert SPACE.largest() == PARENT
    assert SPACE.smallest() == Architecture(
        hidden_size=16,
        vocab_size=64,
        tied_embeddings=True,
        blocks=(replace(ATTENTION, query_heads=1, kv_heads=1), Skip()),
    )
    assert SPACE.largest() in SPACE
    assert SPACE.smallest() in SPACE


def test_its_size_counts_every_architecture_once():
    everything = {
        SPACE.at(hidden, (attention, mlp))
        for hidden in SPACE.hidden_size
        for attention in SPACE.blocks[0].candidates()
        for mlp in SPACE.blocks[1].candidates()
    }
    assert len(everything) == SPACE.size() == 2 * 4 * 3
    assert all(architecture in SPACE for architecture in everything)


def test_what_differs_in_anything_else_is_not_in_it():
    for other in (
        replace(PARENT, hidden_size=24),
        replace(PARENT, vocab_size=65),
        replace(PARENT, tied_embeddings=False),
        replace(PARENT, blocks=(ATTENTION,)),
        replace(PARENT, blocks=(Skip(), MLP)),
        replace(PARENT, blocks=(replace(ATTENTION, qk_norm=False), MLP)),
        replace(PARENT, blocks=(ATTENTION, Mlp(intermediate_size=31))),
    ):
        assert other not in SPACE
