"""What is published, and what memory must hold to measure it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from autocompress.contract.stage import output_digest
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    Engine,
    EngineName,
    Precision,
    Target,
    Workload,
)
from autocompress.families.formats import ExportFormat
from autocompress.models import checkpoint
from autocompress.sources.convert import ORIGIN_FILE
from autocompress.store import artifacts
from autocompress.store.directory import DirectoryStore
from autocompress.testing.models import random_model, random_part, small_parent
from autocompress.validate.model_folder import assemble, folder_digest, format_of
from autocompress.validate.origin import licence_files, read_origin
from autocompress.validate.serving import fit_together
from autocompress.weights.export import export


@pytest.mark.parametrize("wanted", [ExportFormat.PLAIN, ExportFormat.AUTOCOMPRESS])
def test_the_format_is_read_from_the_files(tmp_path: Path, wanted: ExportFormat) -> None:
    part = small_parent(layers=1)
    if wanted is ExportFormat.AUTOCOMPRESS:
        part = random_part(small_parent(layers=3), random.Random(3))
    checkpoint.save(random_model(part, seed=0), tmp_path / "own", None)
    written = export(
        tmp_path / "own", tmp_path / "out", (ExportFormat.PLAIN, ExportFormat.AUTOCOMPRESS)
    )
    assert written is wanted
    assert format_of(tmp_path / "out") is wanted


def test_the_digest_is_that_of_the_published_folder(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "deep").mkdir(parents=True)
    (tmp_path / "checkpoint" / "deep" / "file").write_text("x")
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "NOTICE").write_text("n")
    licences = licence_files(tmp_path / "parent", None)
    assemble(tmp_path / "checkpoint", licences, tmp_path / "m")
    digest = folder_digest(tmp_path / "m")
    manifest = artifacts.publish(
        DirectoryStore(tmp_path / "store"), "m/1", tmp_path / "m", kind="k", input_digest=digest
    )
    assert manifest.output_digest == digest == output_digest(manifest.files)
    assert set(manifest.files) == {"deep/file", "NOTICE"}


def test_both_engines_are_up_at_once_where_memory_allows() -> None:
    target = Target(
        accelerator=Accelerator(kind=AcceleratorKind.CPU),
        engine=Engine(name=EngineName.VLLM, version="1"),
        precision=Precision.BF16,
    )
    workload = Workload(
        prompt_tokens=8, output_tokens=4, concurrency=1, context_tokens=16, max_sequences=1
    )
    models = (small_parent(), small_parent(layers=1))
    assert fit_together(models, target, workload, available_bytes=lambda: 7 << 30)
    assert not fit_together(models, target, workload, available_bytes=lambda: 5 << 30)
    on_gpu = replace(target, accelerator=Accelerator(kind=AcceleratorKind.GPU, product="x"))
    assert not fit_together(models, on_gpu, workload, available_bytes=lambda: 1 << 50)


def test_a_packaged_parent_brings_its_packages_licence(tmp_path: Path) -> None:
    assert read_origin(tmp_path) is None
    origin = {"distribution": "pytest", "version": "1", "file": "m.gguf", "note": "n"}
    (tmp_path / ORIGIN_FILE).write_text(json.dumps(origin))
    read = read_origin(tmp_path)
    assert read is not None
    assert [path.name for path in licence_files(tmp_path, read)] == ["LICENSE"]
    (tmp_path / "LICENSE.md").write_text("own")
    assert licence_files(tmp_path, read) == (tmp_path / "LICENSE.md",)
