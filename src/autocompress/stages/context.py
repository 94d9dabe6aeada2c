"""What a stage function is given and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from autocompress.contract.progress import Progress
from autocompress.contract.stage import Manifest, Stage, Summary
from autocompress.domain.job import Job
from autocompress.store.protocol import Store


@dataclass(frozen=True, kw_only=True)
class StageContext:
    """Everything a stage may touch.

    ``inputs`` holds, for every upstream stage, a local folder with its verified files.
    ``output_dir`` is an empty folder; what is in it when the stage returns is published.
    ``checkpoint_dir`` outlives a killed run of the same stage with the same input digest.
    ``cache_dir`` is this machine's, shared by jobs (downloaded and converted parents).
    ``finishing`` is closed when the result is published, or nothing will be.
    """

    job: Job
    store: Store
    inputs: Mapping[Stage, Path]
    manifests: Mapping[Stage, Manifest]
    input_digest: str
    source_revision: str
    output_dir: Path
    checkpoint_dir: Path
    cache_dir: Path
    progress: Progress
    finishing: ExitStack = field(default_factory=ExitStack)


StageFunction = Callable[[StageContext], Summary]
