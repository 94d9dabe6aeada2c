"""All text of a job, by kind and split."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from autocompress.contract.errors import DataError
from autocompress.domain.job import TextSettings
from autocompress.text import installed
from autocompress.text.documents import Document, Split, TextKind, content_digest, pieces
from autocompress.text.own import own_text

#: Size of one excerpt of a held-out document.
_EXCERPT_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Documents in the order of their digests, each content once."""

    documents: tuple[Document, ...]

    @property
    def kinds(self) -> tuple[TextKind, ...]:
        """The kinds of text that are there."""
        return tuple(kind for kind in TextKind if any(d.kind is kind for d in self.documents))

    @property
    def digest(self) -> str:
        """What identifies the content."""
        return content_digest("\n".join(document.digest for document in self.documents))

    def of(self, kind: TextKind, split: Split) -> tuple[Document, ...]:
        """The documents of one kind in one split."""
        return tuple(d for d in self.documents if d.kind is kind and d.split is split)


@lru_cache(maxsize=4)
def load_corpus(settings: TextSettings) -> Corpus:
    """Read the text of a job: the built-in set, or what ``settings.uri`` names.

    The built-in set is the same wherever Python and the packages it comes from have the same
    version.

    Raises:
        DataError: a package of the built-in set is missing, or the user's text cannot be read.
        SpecError: ``settings.uri`` is not a local path.
    """
    if settings.uri is None:
        sources = (installed.code(), installed.technical_prose(), installed.general_prose())
        documents = [document for source in sources for document in source]
    else:
        documents = list(own_text(settings.uri))
        if not documents:
            raise DataError(f"text.uri {settings.uri!r}: all files are empty")
    return corpus_of(documents)


def corpus_of(documents: list[Document]) -> Corpus:
    """A corpus of these documents."""
    unique = {document.digest: document for document in reversed(documents)}
    return Corpus(documents=tuple(unique[digest] for digest in sorted(unique)))


def held_out(
    corpus: Corpus, kind: TextKind, *, limit_bytes: int | None = None
) -> tuple[Document, ...]:
    """Documents that neither calibration nor training sees, in a fixed order.

    With ``limit_bytes``, only the beginnings of documents, about 4 KiB each, until the next one
    would go beyond the limit; so a small limit still reads many documents.

    Raises:
        DataError: there are none.
    """
    documents = corpus.of(kind, Split.HELD_OUT)
    if not documents:
        raise DataError(
            f"no held-out {kind}: too few documents; give more text (about 100 documents or 1 MB)"
        )
    if limit_bytes is None:
        return documents
    taken: list[Document] = []
    left_bytes = limit_bytes
    for document in documents:
        beginning = pieces(document.text, _EXCERPT_BYTES)[0]
        excerpt = Document(kind=kind, name=document.name, text=beginning)
        if taken and excerpt.size_bytes > left_bytes:
            break
        taken.append(excerpt)
        left_bytes -= excerpt.size_bytes
    return tuple(taken)
