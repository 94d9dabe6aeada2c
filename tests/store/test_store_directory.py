import errno
import os
import subprocess
import time

import pytest

from autocompress.contract.errors import AccessError, DiskFullError, UnavailableError
from autocompress.store.directory import DirectoryStore


@pytest.fixture
def store(tmp_path):
    return DirectoryStore(tmp_path / "store")


def test_looking_makes_no_folder(store):
    assert list(store.keys("")) == []
    store.delete("a/b")
    assert not store.root.exists()


def test_objects_are_read_only_files(store):
    store.put("a/b", b"1")
    assert store.local_path("a/b").stat().st_mode & 0o222 == 0


def test_what_a_killed_writer_left_is_no_object(store):
    store.put("a", b"1")
    left_over = store.root / ".partial" / "left-over"
    left_over.write_bytes(b"half")
    assert list(store.keys("")) == ["a"]
    store.put("b", b"1")
    assert left_over.exists()  # perhaps still being written
    long_ago = time.time() - 3 * 24 * 3600
    os.utime(left_over, (long_ago, long_ago))
    store.put("c", b"1")
    assert not left_over.exists()


def test_nothing_is_left_beside_the_objects(store, tmp_path):
    store.put("a", b"1")
    store.put_if_absent("a", b"2")
    store.download("a", tmp_path / "out" / "a")
    assert list((store.root / ".partial").iterdir()) == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]


def test_a_key_below_an_object_is_refused(store):
    store.put("a", b"1")
    with pytest.raises(ValueError, match="folder of another"):
        store.put("a/b", b"2")
    store.put("c/d", b"1")
    with pytest.raises(ValueError, match="folder of another"):
        store.put("c", b"2")
    assert sorted(store.keys("")) == ["a", "c/d"]


@pytest.mark.parametrize(
    ("number", "expected", "told"),
    [
        (errno.ENOSPC, DiskFullError, "no space left on the device to write"),
        (errno.EDQUOT, DiskFullError, "(3 bytes"),
        (errno.EROFS, AccessError, "Read-only file system"),
        (errno.EACCES, AccessError, "give this user the right to write it"),
        (errno.EIO, UnavailableError, "Input/output error"),
    ],
)
def test_a_failed_write_names_the_path_and_leaves_the_old_object(
    store, monkeypatch, number, expected, told
):
    store.put("a/b", b"old")

    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(expected) as caught:
        store.put("a/b", b"new")
    assert told in str(caught.value)
    assert str(store.root / "a" / "b") in str(caught.value)
    monkeypatch.undo()
    assert store.get("a/b") == b"old"
    assert list((store.root / ".partial").iterdir()) == []


def test_a_full_disk_is_told_with_the_bytes_that_were_wanted(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        store = DirectoryStore(place / "store")
        (tmp_path / "big").write_bytes(b"x" * (4 << 20))
        with pytest.raises(DiskFullError, match=r"4,194,304 bytes, [0-9,]+ free"):
            store.upload(tmp_path / "big", "a/big")
        assert list(store.keys("")) == []
        store.put("a/small", b"there is room for this")
        other = DirectoryStore(tmp_path / "other")
        other.upload(tmp_path / "big", "big")
        with pytest.raises(DiskFullError, match="out"):
            other.download("big", place / "out")
        assert not list(place.glob("*out*"))
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_told(store):
    store.put("a", b"1")
    store.root.chmod(0o555)
    try:
        with pytest.raises(AccessError, match="cannot write"):
            store.put("b/c", b"1")
    finally:
        store.root.chmod(0o755)
