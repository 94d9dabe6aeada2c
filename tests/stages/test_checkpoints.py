"""Checkpoints in a store: the newest valid one counts, two are kept, the work never waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from autocompress.contract.errors import UnavailableError
from autocompress.stages import checkpoints
from autocompress.stages.checkpoints import checkpoint_prefix, drop_checkpoints, stored_checkpoints
from autocompress.store.opening import open_store

DIGEST = "sha256:" + "d" * 64
PREFIX = checkpoint_prefix(DIGEST)


class Saying:
    def __init__(self) -> None:
        self.said: list[str] = []

    def task(self, name: str, total: float) -> None:
        raise AssertionError(name)

    advance = measure = task

    def say(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture
def store(tmp_path: Path):
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def progress() -> Saying:
    return Saying()


def write(folder: Path, step: int, content: str = "") -> Path:
    """As a training does: beside, and renamed into place."""
    new = folder / "training" / "new"
    new.mkdir(parents=True)
    (new / "tensors").write_text(content or f"weights of {step}")
    (new / "state").write_text(str(step))
    return new.rename(folder / "training" / f"step-{step:08d}")


def names(store) -> list[str]:
    keys = store.keys(f"{PREFIX}/")
    return [key.split("/")[-2] for key in keys if key.endswith("manifest.json")]


def run(store, folder: Path, progress, *steps: int) -> None:
    folder.mkdir(exist_ok=True)
    for step in steps:
        with stored_checkpoints(store, DIGEST, folder, progress):
            write(folder, step)


def restored(store, folder: Path, progress) -> list[str]:
    folder.mkdir()
    with stored_checkpoints(store, DIGEST, folder, progress):
        return sorted(path.name for path in folder.glob("training/*"))


def test_the_newest_two_are_kept_and_the_newest_comes_back_alone(store, tmp_path, progress):
    run(store, tmp_path / "work", progress, 1, 2, 3)
    assert names(store) == ["step-00000002", "step-00000003"]
    assert restored(store, tmp_path / "new", progress) == ["step-00000003"]
    assert (tmp_path / "new/training/step-00000003/tensors").read_text() == "weights of 3"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["training"]
    drop_checkpoints(store, DIGEST)
    assert list(store.keys("")) == []


def test_a_stop_stores_the_last_one_at_once(store, tmp_path, progress, monkeypatch):
    monkeypatch.setattr(checkpoints, "_POLL_SECONDS", 3600)
    tmp_path.joinpath("work").mkdir()
    with (
        pytest.raises(KeyboardInterrupt),
        stored_checkpoints(store, DIGEST, tmp_path / "work", progress),
    ):
        write(tmp_path / "work", 1)
        write(tmp_path / "work", 2)
        raise KeyboardInterrupt
    assert names(store) == ["step-00000002"]


@pytest.mark.parametrize("damage", ["content", "size", "manifest", "file"])
def test_a_damaged_one_is_passed_over(store, tmp_path, progress, damage):
    run(store, tmp_path / "work", progress, 1, 2)
    place = f"{PREFIX}/training/step-00000002"
    manifest = store.local_path(f"{place}/manifest.json")
    (tensors,) = (store.root / place).rglob("tensors")
    if damage == "manifest":
        manifest.unlink()
        manifest.write_text("{")
    else:
        tensors.unlink()
        if damage != "file":
            tensors.write_text("WEIGHTS OF 2" if damage == "content" else "short")
    assert restored(store, tmp_path / "new", progress) == ["step-00000001"]


def test_what_is_on_disk_is_not_fetched_again(store, tmp_path, progress):
    run(store, tmp_path / "work", progress, 1, 2)
    assert progress.said == []
    with stored_checkpoints(store, DIGEST, tmp_path / "work", progress):
        pass
    assert progress.said == []
    assert restored(store, tmp_path / "new", progress) == ["step-00000002"]
    assert progress.said == [f"checkpoint training/step-00000002 fetched from {store.uri}"]


def test_the_work_goes_on_while_the_store_is_away(store, tmp_path, progress, monkeypatch):
    monkeypatch.setattr(checkpoints, "_POLL_SECONDS", 0.01)
    publish, away = checkpoints.artifacts.publish, [True]

    def flaky(*arguments, **more):
        if away[0]:
            raise UnavailableError("the store is away")
        return publish(*arguments, **more)

    monkeypatch.setattr(checkpoints.artifacts, "publish", flaky)
    (tmp_path / "work").mkdir()
    with stored_checkpoints(store, DIGEST, tmp_path / "work", progress):
        write(tmp_path / "work", 1)
        while not progress.said:
            pass
        away[0] = False
        while not names(store):
            pass
    assert progress.said == [
        "checkpoint training/step-00000001 is on this disk only: the store is away"
    ]


def test_a_store_that_cannot_be_read_at_the_start_is_told(store, tmp_path, progress, monkeypatch):
    def keys(prefix: str):
        raise UnavailableError("the store is away")

    monkeypatch.setattr(store, "keys", keys)
    with (
        pytest.raises(UnavailableError, match="away"),
        stored_checkpoints(store, DIGEST, tmp_path, progress),
    ):
        raise AssertionError
