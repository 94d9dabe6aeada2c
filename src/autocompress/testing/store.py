"""What every store must do. Subclass in a test module and give it a fixture ``store``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autocompress.store.protocol import Store

BAD_KEYS = (
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "./a",
    "a\\b",
    "a\nb",
    "a\0b",
    ".partial/a",
    "a" * 256,
    "/".join(["a" * 200] * 5),
)


class StoreConformance:
    """A fixture ``store`` gives an empty store."""

    def test_an_object_is_read_as_written(self, store: Store) -> None:
        """Bytes are bytes, the empty ones too."""
        for data in (b"", b"\0\xff\r\n", b"x" * (1 << 20)):
            store.put("a/b c/ä.bin", data)
            assert store.get("a/b c/ä.bin") == data
            assert store.size_bytes("a/b c/ä.bin") == len(data)

    def test_a_missing_key_is_a_key_error(self, store: Store, tmp_path: Path) -> None:
        """A folder of objects is not an object either."""
        store.put("folder/object", b"1")
        for key in ("missing", "missing/deep", "folder", "folder/object/deeper"):
            with pytest.raises(KeyError):
                store.get(key)
            with pytest.raises(KeyError):
                store.size_bytes(key)
            with pytest.raises(KeyError):
                store.download(key, tmp_path / "x")
        assert list(tmp_path.glob("**/*x*")) == []

    def test_a_tag_changes_with_the_content(self, store: Store) -> None:
        """Also when the length does not; reading changes nothing."""
        store.put("a", b"1")
        first = store.content_tag("a")
        store.get("a")
        assert store.content_tag("a") == first
        store.put("a", b"2")
        assert store.content_tag("a") != first
        with pytest.raises(KeyError):
            store.content_tag("b")

    def test_keys_are_listed_in_order_below_a_folder(self, store: Store) -> None:
        """A prefix is a folder, not the beginning of a name."""
        names = ["b/2", "b/10", "b/c/1", "b-other/1", "a"]
        for name in names:
            store.put(name, b"1")
        assert list(store.keys("")) == sorted(names)
        assert list(store.keys("b/")) == ["b/10", "b/2", "b/c/1"]
        assert list(store.keys("none/")) == []

    def test_many_keys_are_all_listed(self, store: Store) -> None:
        """More than one page of a listing."""
        names = [f"many/{index:04d}" for index in range(1100)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: store.put(name, b""), names))
        assert list(store.keys("many/")) == names

    def test_deleting_twice_is_no_error(self, store: Store) -> None:
        """A missing key is what was asked for."""
        store.put("a/b", b"1")
        store.delete("a/b")
        store.delete("a/b")
        assert list(store.keys("")) == []

    def test_files_go_up_and_down_in_parts(self, store: Store, tmp_path: Path) -> None:
        """Larger than one part of a multipart upload."""
        data = bytes(range(256)) * (80 << 10)  # 20 MiB
        (tmp_path / "up.bin").write_bytes(data)
        store.upload(tmp_path / "up.bin", "big/object.bin")
        assert store.size_bytes("big/object.bin") == len(data)
        store.download("big/object.bin", tmp_path / "new folder" / "down.bin")
        assert (tmp_path / "new folder" / "down.bin").read_bytes() == data
        store.download("big/object.bin", tmp_path / "up.bin")  # replaces

    def test_only_the_first_writer_wins(self, store: Store) -> None:
        """The one whose call said so."""
        assert store.put_if_absent("a/key", b"first")
        assert not store.put_if_absent("a/key", b"second")
        assert store.get("a/key") == b"first"
        store.put("a/key", b"third")
        assert store.get("a/key") == b"third"

    def test_one_of_many_concurrent_writers_wins(self, store: Store) -> None:
        """And what it wrote is what stands."""
        with ThreadPoolExecutor(8) as pool:
            won = list(
                pool.map(lambda index: store.put_if_absent("race", b"%d" % index), range(16))
            )
        assert sum(won) == 1
        assert store.get("race") == b"%d" % won.index(True)

    def test_readers_see_whole_objects_only(self, store: Store) -> None:
        """While writers replace them."""
        contents = [bytes([index]) * 300_000 for index in range(8)]
        store.put("changing", contents[0])
        with ThreadPoolExecutor(4) as pool:
            writes = [pool.submit(store.put, "changing", data) for data in contents]
            reads = [pool.submit(store.get, "changing") for _ in range(16)]
        for write in writes:
            write.result()
        assert all(read.result() in contents for read in reads)

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_key_that_could_leave_the_store_is_refused(
        self, store: Store, key: str, tmp_path: Path
    ) -> None:
        """By every operation, before anything happens."""
        (tmp_path / "file").write_bytes(b"1")
        for operation in (
            lambda: store.get(key),
            lambda: store.size_bytes(key),
            lambda: store.put(key, b"1"),
            lambda: store.put_if_absent(key, b"1"),
            lambda: store.upload(tmp_path / "file", key),
            lambda: store.download(key, tmp_path / "out"),
            lambda: store.local_path(key),
            lambda: store.delete(key),
        ):
            with pytest.raises(ValueError, match="key"):
                operation()
        assert list(store.keys("")) == []

    def test_a_local_path_is_the_object_itself(self, store: Store) -> None:
        """Where the store has files."""
        store.put("a/b", b"123")
        path = store.local_path("a/b")
        assert path is None or path.read_bytes() == b"123"
