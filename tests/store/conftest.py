import pytest

from autocompress.store.opening import open_store


@pytest.fixture
def directory_store(tmp_path):
    return open_store(str(tmp_path / "store"))


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.s3)])
def any_store(request, s3_uri):
    if request.param == "directory":
        return request.getfixturevalue("directory_store")
    return request.getfixturevalue("shared_s3_server").store(s3_uri)
