import pytest

from autocompress.contract.errors import AccessError, SpecError
from autocompress.store.directory import DirectoryStore
from autocompress.store.opening import open_store

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}


def test_paths_and_file_uris_are_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_store("runs/a").root == tmp_path / "runs" / "a"
    assert open_store("runs/a").uri == "runs/a"
    assert open_store("file:///tmp/with%20space").root.name == "with space"
    assert isinstance(open_store(str(tmp_path)), DirectoryStore)


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("", "store: is empty"),
        ("gs://bucket/x", "unknown scheme; give a folder, file:///path or s3://bucket/prefix"),
        ("file://host/x", "three slashes"),
        ("s3://", "'' is not a bucket name"),
        ("s3://Bad_Bucket/x", "'Bad_Bucket' is not a bucket name"),
        ("s3://bucket/a/../b", "without empty, . or .. parts"),
    ],
)
def test_a_malformed_uri_tells_what_to_write(uri, told):
    with pytest.raises(SpecError) as caught:
        open_store(uri, environment=KEYS)
    assert told in str(caught.value)


def test_credentials_in_a_uri_are_refused_and_not_repeated():
    with pytest.raises(SpecError) as caught:
        open_store("s3://id:hush@bucket/x", environment=KEYS)
    assert "hush" not in str(caught.value)


def test_missing_credentials_are_named():
    with pytest.raises(AccessError, match="AWS_SECRET_ACCESS_KEY not set"):
        open_store("s3://bucket/x", environment={"AWS_ACCESS_KEY_ID": "id"})


def test_the_endpoint_has_no_path():
    with pytest.raises(SpecError, match="without a path"):
        open_store("s3://bucket", endpoint="http://host:1/minio", environment=KEYS)


def test_opening_a_bucket_makes_no_request_and_shows_no_secret():
    environment = {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    store = open_store("s3://bucket/pre/fix/", environment=environment)
    assert store.uri == "s3://bucket/pre/fix"
    assert "secret" not in repr(vars(store))
