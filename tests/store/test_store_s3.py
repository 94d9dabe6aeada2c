import signal
import socket
import threading
import time

import pytest

from autocompress.contract.errors import AccessError, Reason, UnavailableError
from autocompress.store import artifacts
from autocompress.store.opening import open_store
from autocompress.testing.s3_server import ACCESS_KEY, SECRET_KEY, run_s3_server

pytestmark = pytest.mark.s3
KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


def reading(store, tmp_path):
    return [
        lambda: store.get("a"),
        lambda: store.download("a", tmp_path / "out"),
        lambda: list(store.keys("")),
        lambda: artifacts.find(store, "stages/x", input_digest="sha256:0"),
    ]


def writing(store, tmp_path):
    (tmp_path / "file").write_bytes(b"1")
    return [
        lambda: store.put("a", b"1"),
        lambda: store.put_if_absent("a", b"1"),
        lambda: store.upload(tmp_path / "file", "a"),
    ]


def everything(store, tmp_path):
    return [*reading(store, tmp_path), *writing(store, tmp_path)]


def test_a_refused_connection_is_told_soon_with_the_endpoint(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    store = open_store("s3://bucket/x", endpoint=endpoint, environment=KEYS)
    for operation in everything(store, tmp_path):
        with pytest.raises(UnavailableError) as caught:
            operation()
        assert endpoint in str(caught.value)
        assert "Connection refused" in str(caught.value)
        assert "AWS_ENDPOINT_URL" in str(caught.value)
        assert caught.value.exit_code == 69


def test_a_name_that_does_not_resolve_is_unavailable():
    store = open_store("s3://bucket/x", endpoint="http://nowhere.invalid:9", environment=KEYS)
    with pytest.raises(UnavailableError, match=r"nowhere\.invalid"):
        store.get("a")


def test_something_else_than_s3_at_the_port_is_told(tmp_path):
    def answer(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                page = b"<html>hello</html>"
                connection.sendall(
                    b"HTTP/1.1 400 Bad\r\nContent-Type: text/html\r\nConnection: close\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(page), page)
                )

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=answer, args=(listener,), daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
    store = open_store("s3://bucket/x", endpoint=endpoint, environment=KEYS)
    with pytest.raises(UnavailableError, match="not an S3 answer"):
        store.get("a")
    listener.close()


def test_a_missing_bucket_is_told(shared_s3_server, tmp_path):
    store = shared_s3_server.store("s3://not-there/x")
    for operation in reading(store, tmp_path):
        with pytest.raises(AccessError, match="bucket 'not-there' does not exist") as caught:
            operation()
        assert caught.value.reason is Reason.BUCKET_NOT_FOUND
    for operation in writing(store, tmp_path):  # some servers say "access denied" to these
        with pytest.raises(AccessError, match="not-there") as caught:
            operation()
        assert caught.value.exit_code == 77


@pytest.mark.parametrize("wrong", [{"secret_key": "wrong-secret-1"}, {"access_key": "nobody"}])
def test_a_wrong_key_is_told(shared_s3_server, s3_uri, tmp_path, wrong):
    store = shared_s3_server.store(s3_uri, **wrong)
    for operation in everything(store, tmp_path):
        with pytest.raises(AccessError, match="AWS_SECRET_ACCESS_KEY") as caught:
            operation()
        assert caught.value.reason is Reason.CREDENTIALS_INVALID
        assert "wrong-secret-1" not in str(caught.value)


def test_stores_with_different_prefixes_do_not_see_each_other(shared_s3_server, s3_uri):
    one, other = (shared_s3_server.store(s3_uri + end) for end in ("/a", "/ab"))
    one.put("a", b"1")
    assert list(other.keys("")) == []


def test_a_whole_bucket_is_a_store_too(shared_s3_server):
    store = shared_s3_server.store("s3://artifacts")
    store.put("whole/a", b"1")
    assert "whole/a" in list(store.keys(""))
    assert list(store.keys("whole/")) == ["whole/a"]
    store.delete("whole/a")


@pytest.mark.slow
def test_a_server_killed_during_an_upload_leaves_no_object(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    with run_s3_server(folder) as server:
        server.make_bucket("artifacts")
        store = server.store("s3://artifacts/killed")
        (tmp_path / "made").mkdir()
        (tmp_path / "made" / "big").write_bytes(bytes(range(256)) * (160 << 10))  # 40 MiB
        faults = []

        def publish():
            return artifacts.publish(
                store, "stages/x", tmp_path / "made", kind="x", input_digest="sha256:0"
            )

        def try_to_publish():
            try:
                publish()
            except UnavailableError as error:
                faults.append(error)

        server.pause()
        thread = threading.Thread(target=try_to_publish)
        thread.start()
        time.sleep(0.3)  # requests are on their way and none is answered
        server.stop(signal.SIGKILL)
        thread.join(60)
        assert len(faults) == 1
        assert server.endpoint in str(faults[0])

        server.start()
        assert artifacts.find(store, "stages/x", input_digest="sha256:0") is None
        manifest = publish()
        artifacts.fetch(store, "stages/x", manifest, tmp_path / "got")
        assert (tmp_path / "got" / "big").stat().st_size == 40 << 20
