import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from autocompress.contract import documents
from autocompress.contract.stage import Outcome, Stage, Summary
from autocompress.local import RETRIED
from autocompress.store import artifacts
from autocompress.store.artifacts import CorruptArtifactError, Took

PREFIX = "stages/profile/0123"
INPUT = "sha256:input"
FILES = {"cost_table.json": b"{}", "model/weights.bin": b"\0" * 5000, "model/empty": b""}


def write_folder(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def read_folder(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def publish(store, folder, **more):
    return artifacts.publish(store, PREFIX, folder, kind="profile", input_digest=INPUT, **more)


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "made", FILES)


def damage(store, key, data):
    """Write below the store's own guarantees, as a broken disk or a careless copy does."""
    path = store.local_path(key)
    if path is None:
        store.put(key, data)
    else:
        path.unlink()
        path.write_bytes(data)


def test_what_was_published_is_found_and_fetched(any_store, folder, tmp_path):
    summary = Summary(stage=Stage.PROFILE, outcome=Outcome.DONE, figures={"seconds": 1.5})
    took = Took(wall_seconds=2.5, peak_memory_bytes=9)
    manifest = publish(any_store, folder, summary=summary, took=lambda: took)
    assert (manifest.wall_seconds, manifest.peak_memory_bytes) == (2.5, 9)
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) == manifest
    assert manifest.summary == summary
    artifacts.fetch(any_store, PREFIX, manifest, tmp_path / "got")
    assert read_folder(tmp_path / "got") == FILES
    assert artifacts.read(any_store, PREFIX, manifest, "cost_table.json") == b"{}"


def test_the_output_digest_covers_names_and_contents_only(any_store, folder, tmp_path):
    one = publish(any_store, folder, took=lambda: Took(wall_seconds=1))
    other = artifacts.publish(any_store, "x", folder, kind="other", input_digest="sha256:1")
    assert one.output_digest == other.output_digest
    (folder / "cost_table.json").rename(folder / "renamed.json")
    renamed = artifacts.publish(any_store, "y", folder, kind="other", input_digest="sha256:1")
    assert renamed.output_digest != one.output_digest


def test_what_was_never_finished_is_not_found(any_store, folder):
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) is None
    manifest = publish(any_store, folder)
    any_store.delete(f"{PREFIX}/manifest.json")  # killed before the last write
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) is None
    assert publish(any_store, folder) == manifest


def test_an_artifact_for_other_inputs_is_not_found(any_store, folder):
    publish(any_store, folder)
    assert artifacts.find(any_store, PREFIX, input_digest="sha256:other") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b'{"kind":"profile"}', b"\xff\xfe"],
)
def test_a_manifest_that_cannot_be_read_is_made_again(any_store, folder, content):
    manifest = publish(any_store, folder)
    damage(any_store, f"{PREFIX}/manifest.json", content)
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) is None
    assert publish(any_store, folder) == manifest
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) == manifest


def test_a_manifest_cannot_name_files_outside_the_store(any_store, folder, tmp_path):
    manifest = publish(any_store, folder)
    entry = manifest.files["cost_table.json"]
    evil = replace(manifest, files={"../../../evil": entry})
    damage(any_store, f"{PREFIX}/manifest.json", documents.dump(evil))
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) is None
    with pytest.raises(ValueError, match="evil"):
        artifacts.fetch(any_store, PREFIX, evil, tmp_path / "got")
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("fault", ["missing", "truncated", "longer"])
def test_a_file_of_another_size_is_seen_at_once(any_store, folder, fault):
    manifest = publish(any_store, folder)
    key = artifacts.file_key(PREFIX, manifest, "model/weights.bin")
    if fault == "missing":
        any_store.delete(key)
    else:
        damage(any_store, key, b"\0" * (10 if fault == "truncated" else 9000))
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) is None
    publish(any_store, folder)
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) == manifest


def test_a_changed_file_is_seen_when_fetched_and_made_again(any_store, folder, tmp_path):
    manifest = publish(any_store, folder)
    key = artifacts.file_key(PREFIX, manifest, "model/weights.bin")
    damage(any_store, key, b"\1" * 5000)
    told = r"model/weights.bin is damaged .*run again"
    with pytest.raises(CorruptArtifactError, match=told) as caught:
        artifacts.fetch(any_store, PREFIX, manifest, tmp_path / "got")
    assert caught.value.exit_code in RETRIED
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) is None
    again = publish(any_store, folder)
    artifacts.fetch(any_store, PREFIX, again, tmp_path / "got again")
    assert read_folder(tmp_path / "got again") == FILES


def test_a_changed_file_is_seen_when_read(any_store, folder):
    manifest = publish(any_store, folder)
    damage(any_store, artifacts.file_key(PREFIX, manifest, "cost_table.json"), b"[]")
    with pytest.raises(CorruptArtifactError, match=r"cost_table\.json is damaged"):
        artifacts.read(any_store, PREFIX, manifest, "cost_table.json")
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) is None


def test_concurrent_publishers_of_different_contents_never_mix(any_store, tmp_path):
    makers = 6
    folders = [
        write_folder(tmp_path / str(index), {f"part-{n}": b"%d" % index for n in range(5)})
        for index in range(makers)
    ]
    start = threading.Barrier(makers)

    def race(folder):
        start.wait()
        return publish(any_store, folder)

    with ThreadPoolExecutor(makers) as pool:
        manifests = list(pool.map(race, folders))
    winner = artifacts.find(any_store, PREFIX, input_digest=INPUT)
    assert all(manifest.output_digest == winner.output_digest for manifest in manifests)
    artifacts.fetch(any_store, PREFIX, winner, tmp_path / "got")
    assert len(set(read_folder(tmp_path / "got").values())) == 1


def test_a_reference_means_one_content(any_store, folder):
    manifest = publish(any_store, folder)
    target = artifacts.reference(PREFIX, manifest)
    again = documents.load(artifacts.Reference, documents.dump(target), name="reordered.json")
    assert artifacts.resolve(any_store, again) == manifest
    other = replace(target, output_digest="sha256:other")
    assert artifacts.resolve(any_store, other) is None


def test_an_empty_folder_is_an_artifact_too(any_store, tmp_path):
    (tmp_path / "empty").mkdir()
    manifest = publish(any_store, tmp_path / "empty")
    assert artifacts.find(any_store, PREFIX, input_digest=INPUT) == manifest
    artifacts.fetch(any_store, PREFIX, manifest, tmp_path / "got")
    assert read_folder(tmp_path / "got") == {}


def test_fetching_into_a_folder_with_older_files_replaces_them(any_store, folder, tmp_path):
    manifest = publish(any_store, folder)
    write_folder(tmp_path / "got", {"cost_table.json": b"old"})
    artifacts.fetch(any_store, PREFIX, manifest, tmp_path / "got")
    assert read_folder(tmp_path / "got") == FILES


def test_a_directory_store_gives_the_files_without_copies(directory_store, folder, tmp_path):
    manifest = publish(directory_store, folder)
    place = artifacts.local_folder(directory_store, PREFIX, manifest)
    assert read_folder(place) == FILES
    target = artifacts.reference(PREFIX, manifest)
    assert artifacts.location(directory_store, target) == str(place)
    artifacts.fetch(directory_store, PREFIX, manifest, tmp_path / "got")
    assert (place / "model/empty").samefile(tmp_path / "got" / "model/empty")


@pytest.mark.s3
def test_a_bucket_has_no_local_folder(shared_s3_server, s3_uri, folder):
    store = shared_s3_server.store(s3_uri)
    manifest = publish(store, folder)
    assert artifacts.local_folder(store, PREFIX, manifest) is None
    place = artifacts.location(store, artifacts.reference(PREFIX, manifest))
    assert place == f"{s3_uri}/{PREFIX}/{manifest.output_digest[7:23]}"
