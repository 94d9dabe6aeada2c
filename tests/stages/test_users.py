"""Who uses which artifacts, and what a cleanup removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from autocompress.contract.errors import DataError, SpecError
from autocompress.stages.users import check_user, clean_up, record_use
from autocompress.store import artifacts
from autocompress.store.opening import open_store

A, B = "team.one.0a-1", "team.two.0b-2"


def prefix(kind: str, digit: str) -> str:
    return f"{kind}/{digit * 64}"


PROFILE, SEARCH = prefix("stages/profile", "1"), prefix("stages/search", "2")
MODEL, TABLE = prefix("models", "3"), "shared/cost-table/" + "4" * 32
CHECKPOINTS = prefix("checkpoints", "5")


@pytest.fixture
def store(tmp_path: Path):
    made = open_store(str(tmp_path / "store"))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("content")
    for place in (PROFILE, SEARCH, MODEL, TABLE):
        artifacts.publish(made, place, folder, kind="x", input_digest="sha256:0")
    artifacts.publish(made, f"{CHECKPOINTS}/training/step-1", folder, kind="x", input_digest="y")
    return made


def left(store) -> set[str]:
    return {"/".join(key.split("/")[:3]) for key in store.keys("") if "users/" not in key}


def test_what_only_one_object_used_goes_with_it_and_the_cost_table_stays(store):
    record_use(store, A, [PROFILE, SEARCH, MODEL, TABLE, CHECKPOINTS])
    record_use(store, B, [PROFILE])
    done = clean_up(store, A)
    assert set(done.removed) == {SEARCH, MODEL, CHECKPOINTS}
    assert done.kept == (PROFILE,)
    assert done.objects == 6
    assert artifacts.find(store, PROFILE, input_digest="sha256:0") is not None
    assert artifacts.find(store, TABLE, input_digest="sha256:0") is not None
    assert not [key for key in store.keys("") if SEARCH in key or MODEL in key or "check" in key]
    assert list(store.keys("users/")) == [f"users/{B}.json"]
    assert clean_up(store, B).removed == (PROFILE,)
    assert {key.split("/")[1] for key in store.keys("")} == {"cost-table"}


def test_uses_add_up_and_a_second_cleanup_finds_nothing(store):
    record_use(store, A, [PROFILE])
    record_use(store, A, [SEARCH])
    record_use(store, A, [SEARCH])
    assert set(clean_up(store, A).removed) == {PROFILE, SEARCH}
    again = clean_up(store, A)
    assert (again.removed, again.kept, again.objects) == ((), (), 0)
    assert list(store.keys("leaving/")) == []


def test_a_cleanup_that_was_cut_short_goes_on(store, monkeypatch):
    record_use(store, A, [PROFILE, SEARCH, MODEL])
    remove, calls = artifacts.remove, []

    def failing(given, place):
        calls.append(place)
        if len(calls) == 2:
            raise ConnectionError
        return remove(given, place)

    monkeypatch.setattr(artifacts, "remove", failing)
    with pytest.raises(ConnectionError):
        clean_up(store, A)
    assert list(store.keys("users/")) == []
    monkeypatch.setattr(artifacts, "remove", remove)
    clean_up(store, A)
    assert not [key for key in store.keys("") if any(p in key for p in (PROFILE, SEARCH, MODEL))]


def test_a_record_cannot_name_anything_else(store):
    store.put("stages/other", b"1")
    record_use(store, A, ["", "users", "stages", "shared/cost-table", "stages/profile/..", TABLE])
    before = left(store)
    assert clean_up(store, A).removed == ()
    assert left(store) == before


def test_nothing_is_removed_while_another_record_cannot_be_read(store):
    record_use(store, A, [PROFILE])
    store.put(f"users/{B}.json", b"{broken")
    with pytest.raises(DataError, match=f"users/{B}.json"):
        clean_up(store, A)
    assert artifacts.find(store, PROFILE, input_digest="sha256:0") is not None


def test_a_damaged_record_of_ones_own_is_written_anew(store):
    store.put(f"users/{A}.json", b"{broken")
    record_use(store, A, [PROFILE])
    assert clean_up(store, A).removed == (PROFILE,)


@pytest.mark.parametrize("user", ["", "a.b", "A.b.c", "a/b.c.d", "a.b.", "..", "a" * 201 + ".b.c"])
def test_a_name_that_is_none_is_refused(user):
    with pytest.raises(SpecError, match=r"NAMESPACE\.NAME\.UID"):
        check_user(user)
    assert check_user("ns.my-job.6f1e") == "ns.my-job.6f1e"
