import pytest

from autocompress.store.counting import CountingStore
from autocompress.testing.store import StoreConformance


class TestStores(StoreConformance):
    @pytest.fixture
    def store(self, any_store):
        return any_store


class TestCountingStore(StoreConformance):
    @pytest.fixture
    def store(self, directory_store):
        return CountingStore(directory_store)

    def test_contents_are_counted_both_ways(self, store, tmp_path):
        (tmp_path / "file").write_bytes(b"12345")
        store.put("a", b"1")
        store.upload(tmp_path / "file", "b")
        assert store.bytes_moved == 6
        store.get("b")
        store.download("a", tmp_path / "back")
        assert store.bytes_moved == 12
        assert list(store.keys("")) == ["a", "b"]
        assert store.bytes_moved == 12
