"""The text of a job: kinds, splits, the user's own files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.contract.errors import DataError, SpecError
from autocompress.domain.job import TextSettings
from autocompress.text.corpus import corpus_of, held_out, load_corpus
from autocompress.text.documents import Document, Split, TextKind, pieces
from autocompress.text.installed import boolq_scored, general_prose


@given(st.text(), st.integers(1, 50))
def test_pieces_joined_are_the_text(text, size):
    parts = pieces(text, size)
    assert "".join(parts) == text
    assert all(len(p.encode()) <= size or len(p.splitlines()) == 1 for p in parts)


@given(st.lists(st.text(min_size=1), max_size=30))
def test_every_document_is_in_one_split_whatever_its_kind(texts):
    documents = [Document(kind=TextKind.OWN, name=str(i), text=t) for i, t in enumerate(texts)]
    corpus = corpus_of(documents)
    parts = [corpus.of(TextKind.OWN, split) for split in Split]
    assert sum(map(len, parts)) == len({d.text for d in documents})
    assert corpus_of(documents[::-1]).digest == corpus.digest


def test_the_builtin_set_has_three_kinds_in_three_splits():
    corpus = load_corpus(TextSettings())
    assert corpus.kinds == (TextKind.CODE, TextKind.TECHNICAL, TextKind.GENERAL)
    for kind in corpus.kinds:
        sizes = {s: sum(d.size_bytes for d in corpus.of(kind, s)) for s in Split}
        assert sizes[Split.TRAINING] > sizes[Split.CALIBRATION] > 40_000
        assert sizes[Split.HELD_OUT] > 40_000


def test_half_of_boolq_is_scored_and_none_of_that_is_text():
    texts = list(general_prose())
    assert 1000 < len(texts) < 2000
    assert not any(boolq_scored(document.text) for document in texts)


def test_a_limit_takes_beginnings_of_many_held_out_documents():
    corpus = load_corpus(TextSettings())
    documents = held_out(corpus, TextKind.CODE, limit_bytes=20_000)
    assert len(documents) >= 5
    assert sum(d.size_bytes for d in documents) <= 20_000
    whole = held_out(corpus, TextKind.CODE)
    assert all(w.text.startswith(d.text) for d, w in zip(documents, whole, strict=False))
    assert all(d.split is Split.HELD_OUT for d in whole)


def test_own_text_is_read_from_a_folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("line of text\n" * 5000)
    rows = [json.dumps({"text": f"row {i}", "other": 1}) for i in range(3)]
    (tmp_path / "b.jsonl").write_text("\n".join(rows) + "\n\n")
    (tmp_path / "c.md").write_text("not read")
    corpus = load_corpus(TextSettings(uri=f"file://{tmp_path}"))
    assert corpus.kinds == (TextKind.OWN,)
    assert {d.text for d in corpus.documents if d.name.startswith("b")} == {
        "row 0",
        "row 1",
        "row 2",
    }
    assert any(d.name.startswith("deep/a.txt:") for d in corpus.documents)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": 3}\n', 'line 1: no field "text"'),
        ("a.jsonl", b'{"text": "x"}\n{\n', "line 2: not JSON"),
        ("a.txt", b"\xff\xfe\x00", "UTF-8"),
        ("a.txt", b"\n \n", "empty"),
        ("a.csv", b"x", "no .txt or .jsonl"),
    ],
)
def test_own_text_that_cannot_be_used_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_corpus(TextSettings(uri=str(tmp_path)))


def test_own_text_that_is_nowhere_or_elsewhere(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load_corpus(TextSettings(uri=str(tmp_path / "none")))
    with pytest.raises(SpecError, match="on this machine"):
        load_corpus(TextSettings(uri="https://example.com/text"))


def test_too_few_documents_have_no_held_out_part():
    corpus = corpus_of([Document(kind=TextKind.OWN, name="a", text="a")])
    with pytest.raises(DataError, match="no held-out own text"):
        held_out(corpus, TextKind.OWN)
