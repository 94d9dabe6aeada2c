"""Parents of the Hugging Face hub, with its client replaced or offline."""

from __future__ import annotations

import huggingface_hub
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled, RepositoryNotFoundError

from autocompress.contract.errors import DataError, UnavailableError
from autocompress.contract.progress import Silent
from autocompress.domain.job import ModelSource
from autocompress.sources.fetch import fetch_parent
from autocompress.sources.revision import resolve_revision

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SOURCE = ModelSource(uri="hf://org/name")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local cache with one snapshot of ``org/name``, and no network."""
    root = tmp_path / "hub"
    snapshot = root / "models--org--name" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (root / "models--org--name" / "refs").mkdir()
    (root / "models--org--name" / "refs" / "main").write_text(COMMIT)
    for name in ("config.json", "tokenizer.json", "model.safetensors", "weights.bin"):
        (snapshot / name).write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root))
    monkeypatch.setattr("huggingface_hub.file_download.constants.HF_HUB_CACHE", str(root))
    refuse(monkeypatch, OfflineModeIsEnabled("offline"))
    return snapshot


def refuse(monkeypatch, error):
    def model_info(self, *args, **kwargs):
        raise error

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)


def test_a_cached_model_needs_no_network(hub, tmp_path):
    cache = tmp_path / "cache"
    first = resolve_revision(SOURCE, cache)
    named = ModelSource(uri=SOURCE.uri, revision=COMMIT)
    assert resolve_revision(named, cache) == first
    found = fetch_parent(SOURCE, cache, Silent())
    assert sorted(p.name for p in found.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_a_model_that_is_not_cached_says_what_to_do(hub, tmp_path):
    with pytest.raises(UnavailableError, match="download it elsewhere and give its folder"):
        resolve_revision(ModelSource(uri="hf://org/other"), tmp_path)


def test_half_a_download_is_not_taken_for_a_model(hub, tmp_path):
    (hub / "model.safetensors").unlink()
    with pytest.raises(UnavailableError, match="cannot be reached"):
        fetch_parent(SOURCE, tmp_path / "cache", Silent())


def test_errors_of_the_connection_are_for_people(hub, tmp_path, monkeypatch):
    refuse(monkeypatch, RuntimeError("[Errno -2] Name or service not known\nmore"))
    with pytest.raises(UnavailableError, match=r"\(\[Errno -2\] Name or service not known\)"):
        resolve_revision(ModelSource(uri="hf://org/other"), tmp_path)


def test_a_model_that_does_not_exist_is_named(hub, tmp_path, monkeypatch):
    refuse(monkeypatch, RepositoryNotFoundError.__new__(RepositoryNotFoundError))
    with pytest.raises(DataError, match="no org/other at revision main"):
        resolve_revision(ModelSource(uri="hf://org/other"), tmp_path)
