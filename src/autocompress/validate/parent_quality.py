"""The parent's quality: measured once for all jobs that ask the same of the same parent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from autocompress.contract import documents
from autocompress.contract.digest import digest
from autocompress.contract.progress import Progress
from autocompress.evaluation.results import ModelQuality
from autocompress.store import artifacts
from autocompress.store.protocol import Store

_FILE = "quality.json"


def parent_quality(
    store: Store,
    *,
    source_revision: str,
    questions_digest: str,
    conditions: tuple[str, ...],
    measure: Callable[[], ModelQuality],
    progress: Progress,
) -> ModelQuality:
    """The recorded answers, or those of ``measure``, which are recorded.

    ``conditions``: what else decides them, such as element types.
    """
    key = digest([source_revision, questions_digest, list(conditions)])
    prefix = f"shared/parent-quality/{key.removeprefix('sha256:')}"
    manifest = artifacts.find(store, prefix, input_digest=key)
    if manifest is not None:
        data = artifacts.read(store, prefix, manifest, _FILE)
        progress.say("the parent's quality was measured before: reused")
        return documents.load(ModelQuality, data, name=f"{store.uri}: {prefix}/{_FILE}")
    result = measure()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _FILE).write_bytes(documents.dump(result))
        artifacts.publish(store, prefix, Path(folder), kind="parent-quality", input_digest=key)
    return result
