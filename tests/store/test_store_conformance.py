import pytest

from autocompress.testing.store import StoreConformance


class TestStores(StoreConformance):
    @pytest.fixture
    def store(self, any_store):
        return any_store
