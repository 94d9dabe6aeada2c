"""Packing text into windows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocompress.contract.errors import DataError
from autocompress.text.corpus import corpus_of
from autocompress.text.documents import Document, Split, TextKind
from autocompress.text.windows import windows


class Bytes:
    """One token per byte; 256 ends, 257 begins a text when asked to."""

    eos_token_id = 256

    def __init__(self, bos=None):
        self.bos_token_id = bos

    def encode(self, text, *, add_special_tokens=True):
        begin = [self.bos_token_id] if add_special_tokens and self.bos_token_id else []
        return begin + list(text.encode())


def corpus(documents=60, kinds=(TextKind.CODE, TextKind.GENERAL), shorter=1):
    made = []
    for number, kind in enumerate(kinds):
        count = documents // (shorter if number else 1)
        made += [
            Document(kind=kind, name=f"{i}", text=f"{kind} {i} " + chr(97 + number) * 300 + "\n")
            for i in range(count)
        ]
    return corpus_of(made)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(4, 64), st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_more_tokens_give_the_same_rows_and_further_ones(few, more, length, seed):
    def rows(count):
        return windows(
            Bytes(),
            corpus(),
            Split.TRAINING,
            tokens=count * length,
            sequence_tokens=length,
            seed=seed,
        )

    short, long = sorted((few, more))
    assert rows(long)[:short].equal(rows(short))
    assert rows(short).shape == (short, length)


def test_kinds_take_turns_and_seeds_differ():
    rows = windows(Bytes(), corpus(), Split.TRAINING, tokens=640, sequence_tokens=64, seed=1)
    assert [bool((row == ord("b")).sum() > 30) for row in rows] == [False, True] * 5
    other = windows(Bytes(), corpus(), Split.TRAINING, tokens=640, sequence_tokens=64, seed=2)
    assert not other.equal(rows)


def test_a_kind_without_more_text_leaves_its_turns():
    text = corpus(shorter=10)
    rows = windows(Bytes(), text, Split.TRAINING, tokens=64 * 100, sequence_tokens=64, seed=1)
    assert rows.shape == (100, 64)


def test_splits_share_no_document():
    text = corpus(300)
    size = {"tokens": 3000, "sequence_tokens": 100, "seed": 0}
    seen = {
        split: bytes(t for t in windows(Bytes(), text, split, **size).flatten() if t < 256)
        for split in Split
    }
    names = {
        split: {n for n in range(300) if f"code {n} ".encode() in content}
        for split, content in seen.items()
    }
    assert all(names.values())
    assert not names[Split.TRAINING] & names[Split.CALIBRATION]
    assert not names[Split.TRAINING] & names[Split.HELD_OUT]
    assert not names[Split.CALIBRATION] & names[Split.HELD_OUT]


def test_rows_begin_with_the_begin_token_where_the_tokenizer_has_one():
    rows = windows(Bytes(257), corpus(), Split.TRAINING, tokens=96, sequence_tokens=32, seed=1)
    assert rows[:, 0].tolist() == [257] * 3
    assert (rows == 257).sum() == 3
    assert (rows == 256).sum() >= 0


def test_too_little_text_says_how_much_there_is():
    with pytest.raises(DataError, match=r"too little text for training: \d+ tokens .* 64000 are"):
        windows(Bytes(), corpus(), Split.TRAINING, tokens=64_000, sequence_tokens=64, seed=1)
