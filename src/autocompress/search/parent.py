"""The parent as the search needs it: ranked and reordered, each made once and shared by jobs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer

from autocompress.contract.digest import digest
from autocompress.contract.documents import dump, load
from autocompress.contract.stage import Manifest
from autocompress.domain.ranking import Ranking
from autocompress.importance.ranking import rank
from autocompress.models import checkpoint as models
from autocompress.models.tokenizers import check_tokenizer
from autocompress.sources.fetch import fetch_parent
from autocompress.stages.context import StageContext
from autocompress.store import artifacts
from autocompress.text.corpus import Corpus, load_corpus
from autocompress.text.documents import Split
from autocompress.text.windows import Tokenizer, windows
from autocompress.training import runtime
from autocompress.weights.reorder import reorder

#: Bumped by hand when ranking or reordering changes its meaning.
VERSION = 1
#: Rows of calibration text; the search trains on rows of its own length.
CALIBRATION_ROW_TOKENS = 256
_RANKING = "ranking.json"


@dataclass(frozen=True, kw_only=True)
class PreparedParent:
    """``folder`` holds the reordered parent, ``reference`` says where the store has it."""

    ranking: Ranking
    folder: Path
    reference: artifacts.Reference
    tokenizer: Tokenizer
    corpus: Corpus


def prepare_parent(context: StageContext, scratch: Path) -> PreparedParent:
    """Find or make the ranking and the reordered parent.

    Raises:
        DataError: parent, tokenizer or text cannot be used.
    """
    parent = fetch_parent(context.job.source, context.cache_dir, context.progress)
    check_tokenizer(parent)
    tokenizer: Tokenizer = AutoTokenizer.from_pretrained(parent)
    corpus = load_corpus(context.job.text)
    key = digest(
        {
            "version": VERSION,
            "parent": context.source_revision,
            "text": corpus.digest,
            "tokens": context.job.search.calibration_tokens,
            "seed": context.job.search.seed,
        }
    )
    ranking = _ranking(context, key, parent, tokenizer, corpus)
    folder = scratch / "reordered"
    manifest = _reordered(context, key, parent, ranking, folder)
    return PreparedParent(
        ranking=ranking,
        folder=folder,
        reference=artifacts.reference(_prefix("reordered-parent", key), manifest),
        tokenizer=tokenizer,
        corpus=corpus,
    )


def _ranking(
    context: StageContext,
    key: str,
    parent: Path,
    tokenizer: Tokenizer,
    corpus: Corpus,
) -> Ranking:
    prefix = _prefix("ranking", key)
    found = artifacts.find(context.store, prefix, input_digest=key)
    if found is not None:
        context.progress.say("ranking of the parent: reused")
        data = artifacts.read(context.store, prefix, found, _RANKING)
        return load(Ranking, data, name=_RANKING)
    rows = windows(
        tokenizer,
        corpus,
        Split.CALIBRATION,
        tokens=context.job.search.calibration_tokens,
        sequence_tokens=CALIBRATION_ROW_TOKENS,
        seed=context.job.search.seed,
    )
    device = runtime.prepare(context.job.search.seed)
    model = models.load(parent, runtime.compute_dtype(device)).to(device).eval()
    ranking = rank(model, rows, batch_size=4, progress=context.progress)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _RANKING).write_bytes(dump(ranking))
        artifacts.publish(context.store, prefix, Path(folder), kind="ranking", input_digest=key)
    return ranking


def _reordered(
    context: StageContext, key: str, parent: Path, ranking: Ranking, folder: Path
) -> Manifest:
    prefix = _prefix("reordered-parent", key)
    found = artifacts.find(context.store, prefix, input_digest=key)
    if found is not None:
        context.progress.say("reordered parent: reused")
        artifacts.fetch(context.store, prefix, found, folder)
        return found
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        reorder(parent, ranking, Path(name) / "made")
        manifest = artifacts.publish(
            context.store,
            prefix,
            Path(name) / "made",
            kind="reordered-parent",
            input_digest=key,
        )
    artifacts.fetch(context.store, prefix, manifest, folder)
    return manifest


def _prefix(kind: str, key: str) -> str:
    return f"shared/{kind}/{key.removeprefix('sha256:')}"
