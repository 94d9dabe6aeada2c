"""A published model by digest: fetched, checked, refused when it is not what was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autocompress.cli import main
from autocompress.contract.errors import DataError
from autocompress.promote.pinned import fetch, verify
from autocompress.store import artifacts
from autocompress.store.opening import open_store

FILES = {"config.json": b"{}", "model.safetensors": b"weights" * 1000, "sub/tokenizer.json": b"t"}


@pytest.fixture
def published(tmp_path: Path) -> tuple[str, str]:
    """URI (as a job's status has it) and digest of a model in a folder store."""
    return publish(str(tmp_path / "store"), tmp_path / "model")


def publish(store_uri: str, source: Path) -> tuple[str, str]:
    for name, data in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    store = open_store(store_uri)
    entries = {
        name: artifacts.FileEntry(
            digest=artifacts.file_digest(source / name), size_bytes=len(FILES[name])
        )
        for name in FILES
    }
    digest = artifacts.output_digest(entries)
    prefix = f"models/{digest.removeprefix('sha256:')}"
    manifest = artifacts.publish(store, prefix, source, kind="model", input_digest=digest)
    assert manifest.output_digest == digest
    return artifacts.location(store, artifacts.reference(prefix, manifest)), digest


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("form", ["files", "artifact", "manifest", "slash"])
def test_every_way_to_name_a_model_brings_the_same_files(published, tmp_path, form):
    uri, digest = published
    artifact = uri.rpartition("/")[0]
    named = {
        "files": uri,
        "artifact": artifact,
        "manifest": f"{artifact}/manifest.json",
        "slash": f"{artifact}/",
    }[form]
    target = tmp_path / "to"
    fetched = fetch(named, digest, target)
    assert contents(target) == FILES
    assert fetched.files == 3
    assert fetched.downloaded_bytes == fetched.size_bytes == sum(map(len, FILES.values()))
    verify(target, digest)


def test_an_interrupted_fetch_goes_on(published, tmp_path):
    uri, digest = published
    target = tmp_path / "to"
    (target / ".partial").mkdir(parents=True)
    (target / ".partial" / "0").write_bytes(b"half")
    (target / "config.json").write_bytes(FILES["config.json"])
    (target / "model.safetensors").write_bytes(b"wrong" * 1400)
    fetched = fetch(uri, digest, target)
    assert contents(target) == FILES
    assert fetched.downloaded_bytes == fetched.size_bytes - len(FILES["config.json"])
    assert fetch(uri, digest, target).downloaded_bytes == 0


def test_files_are_not_shared_with_the_store(published, tmp_path):
    uri, digest = published
    fetch(uri, digest, tmp_path / "to")
    (tmp_path / "to/config.json").chmod(0o644)
    (tmp_path / "to/config.json").write_bytes(b"changed")
    fetch(uri, digest, tmp_path / "again")


def test_another_digest_is_refused(published, tmp_path):
    uri, digest = published
    other = "sha256:" + "0" * 64
    with pytest.raises(DataError, match=f"holds {digest}, not {other}"):
        fetch(uri, other, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_damaged_file_is_refused_and_the_store_left_alone(published, tmp_path):
    uri, digest = published
    path = Path(uri) / "model.safetensors"
    path.chmod(0o644)
    path.write_bytes(b"W" + FILES["model.safetensors"][1:])
    before = contents(tmp_path / "store")
    with pytest.raises(DataError, match=r"model\.safetensors is damaged"):
        fetch(uri, digest, tmp_path / "to")
    assert not (tmp_path / "to/model.safetensors").exists()
    assert contents(tmp_path / "store") == before


def test_a_model_that_is_gone_is_told(published, tmp_path):
    uri, digest = published
    (Path(uri) / "config.json").unlink()
    with pytest.raises(DataError, match=r"config\.json is missing"):
        fetch(uri, digest, tmp_path / "to")
    (Path(uri).parent / "manifest.json").unlink()
    with pytest.raises(DataError, match="holds no complete artifact"):
        fetch(uri, digest, tmp_path / "to")


def test_a_folder_with_other_files_is_refused(published, tmp_path):
    uri, digest = published
    (tmp_path / "to").mkdir()
    (tmp_path / "to/adapter.py").write_text("")
    with pytest.raises(DataError, match=r"holds adapter\.py, which is not of this artifact"):
        fetch(uri, digest, tmp_path / "to")


@pytest.mark.parametrize("uri", ["s3://bucket", "model", "/"])
def test_a_uri_without_an_artifact_is_refused(uri, tmp_path):
    with pytest.raises(DataError, match="does not name an artifact"):
        fetch(uri, "sha256:" + "0" * 64, tmp_path / "to")


@pytest.mark.parametrize("change", ["altered", "added", "removed"])
def test_a_changed_folder_does_not_verify(published, tmp_path, change):
    uri, digest = published
    target = tmp_path / "to"
    fetch(uri, digest, target)
    if change == "added":
        (target / "extra").write_bytes(b"")
    else:
        (target / "config.json").unlink()
    if change == "altered":
        (target / "config.json").write_bytes(b"[]")
    with pytest.raises(DataError, match=f"not {digest}"):
        verify(target, digest)


@pytest.mark.s3
def test_a_bucket_is_fetched_with_the_credentials_of_the_environment(
    shared_s3_server, s3_uri, tmp_path, monkeypatch, capsys
):
    from autocompress.testing.s3_server import ACCESS_KEY, SECRET_KEY

    monkeypatch.setenv("AWS_ENDPOINT_URL", shared_s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    uri, digest = publish(s3_uri, tmp_path / "model")
    assert uri.startswith("s3://") and uri.endswith(f"/{digest[7:]}/{digest[7:23]}")
    monkeypatch.setattr(
        "sys.argv",
        ["autocompress", "fetch", uri, "--digest", digest, "--to", str(tmp_path / "to")],
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "digest verified" in capsys.readouterr().out
    assert contents(tmp_path / "to") == FILES


def command_line(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autocompress", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
        timeout=120,
    )


def test_verify_becomes_the_command_only_when_the_content_is_right(published, tmp_path):
    uri, digest = published
    fetch(uri, digest, tmp_path / "to")
    run = ("verify", str(tmp_path / "to"), "--digest")
    served = command_line(*run, digest, "--", "echo", "serving", "--port", "1")
    assert (served.returncode, served.stdout) == (0, "serving --port 1\n")
    refused = command_line(*run, "sha256:" + "0" * 64, "--", "echo", "serving")
    assert refused.returncode == 65
    assert "serving" not in refused.stdout
    assert "error (BadData)" in refused.stderr
    assert command_line(*run, digest, "--", "no-such-program").returncode == 64
    assert command_line(*run, "latest").returncode == 64
