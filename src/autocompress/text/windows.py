"""Token windows: text of a split packed into rows of one length, kinds in turn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from autocompress.contract.errors import DataError
from autocompress.text.corpus import Corpus
from autocompress.text.documents import Split, TextKind, pieces

_MIN_PIECE_BYTES = 2048


class Tokenizer(Protocol):
    """What is needed of a transformers tokenizer."""

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a text, if there is one."""

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a text, if there is one."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of ``text``."""


def windows(
    tokenizer: Tokenizer,
    corpus: Corpus,
    split: Split,
    *,
    tokens: int,
    sequence_tokens: int,
    seed: int,
) -> Tensor:
    """At least ``tokens`` tokens: int64 ``[ceil(tokens / sequence_tokens), sequence_tokens]``.

    Documents are cut into pieces of about 2 KiB, or as long as a row where that is longer, so that
    few tokens still come from many documents; the pieces of each kind are put in an order that
    ``seed`` decides, and packed one behind the other with the tokenizer's end token between them.
    Rows take the kinds in turn; a kind that has no more text leaves its turns to the others. Every
    row begins with the begin token where the tokenizer puts one. Asking for more tokens gives the
    same rows and further ones; no text is used twice.

    Raises:
        DataError: the split holds less text, saying how much there is.
    """
    rows = -(-tokens // sequence_tokens)
    prefix = _prefix(tokenizer)
    piece_bytes = max(_MIN_PIECE_BYTES, 4 * sequence_tokens)
    sources = [
        _rows(
            tokenizer,
            _shuffled(corpus, kind, split, piece_bytes=piece_bytes, seed=seed),
            prefix,
            length=sequence_tokens - len(prefix),
        )
        for kind in corpus.kinds
    ]
    taken: list[list[int]] = []
    while sources and len(taken) < rows:
        alive = []
        for source in sources:
            row = next(source, None)
            if row is not None:
                alive.append(source)
                taken.append(row)
        sources = alive
    if len(taken) < rows:
        raise DataError(
            f"too little text for {split}: {len(taken) * sequence_tokens} tokens in "
            f"{len(taken)} sequences of {sequence_tokens}, but {rows * sequence_tokens} are "
            "needed; give more text in text.uri, or ask for fewer tokens"
        )
    return torch.tensor(taken[:rows], dtype=torch.int64)


def begins_with_bos(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer itself puts the begin token before a text."""
    bos = tokenizer.bos_token_id
    return bos is not None and tokenizer.encode("a")[:1] == [bos]


def _prefix(tokenizer: Tokenizer) -> list[int]:
    bos = tokenizer.bos_token_id
    return [bos] if bos is not None and begins_with_bos(tokenizer) else []


def _shuffled(
    corpus: Corpus, kind: TextKind, split: Split, *, piece_bytes: int, seed: int
) -> list[str]:
    texts = [
        piece
        for document in corpus.of(kind, split)
        for piece in pieces(document.text, piece_bytes)
        if piece.strip()
    ]
    random.Random(f"{seed} {kind.value} {split.value}").shuffle(texts)
    return texts


def _rows(
    tokenizer: Tokenizer, texts: list[str], prefix: list[int], *, length: int
) -> Iterator[list[int]]:
    separator = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    pending: list[int] = []
    for text in texts:
        pending += tokenizer.encode(text, add_special_tokens=False) + separator
        while len(pending) >= length:
            yield prefix + pending[:length]
            del pending[:length]
