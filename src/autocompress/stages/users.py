"""Which objects use which artifacts, and the removal of those that nobody uses any more.

``users/<user>.json`` names what an object uses. A stage writes it before it works and after it has
published, so that a failed object's checkpoints are named too. Cost tables, rankings and parents'
scores are never in it: they are shared, and dear to make again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from autocompress.contract import documents
from autocompress.contract.errors import DataError, SpecError
from autocompress.store import artifacts
from autocompress.store.protocol import Store

_USERS, _LEAVING = "users", "leaving"
#: NAMESPACE.NAME.UID: lower-case letters, digits, - and ., as Kubernetes has them.
_USER = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?){2,}")
#: What may be deleted at all, whatever a record says.
_REMOVABLE = re.compile(
    r"(stages/(profile|search|recover|validate)|models|checkpoints|shared/reordered-parent)/[0-9a-f]{64}"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Uses:
    """What one object uses: prefixes of artifacts and of checkpoints, in order."""

    user: str
    prefixes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleanup:
    """What became of the prefixes that an object had used."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    objects: int


def check_user(user: str) -> str:
    """``user`` itself.

    Raises:
        SpecError: it does not look like NAMESPACE.NAME.UID.
    """
    if len(user) > 200 or not _USER.fullmatch(user):
        raise SpecError(
            f"--user {user!r}: give NAMESPACE.NAME.UID of the object, in lower-case letters, "
            "digits, - and ., at most 200 characters"
        )
    return user


def record_use(store: Store, user: str, prefixes: Collection[str]) -> None:
    """Add ``prefixes`` to what ``user`` uses; one process at a time does so for one user."""
    key = _key(_USERS, user)
    known = None
    with suppress(DataError):  # one that cannot be read is written anew
        known = _read(store, key)
    named = tuple(sorted({*prefixes, *(known.prefixes if known else ())}))
    if known is None or named != known.prefixes:
        store.put(key, documents.dump(Uses(user=user, prefixes=named)))


def clean_up(store: Store, user: str) -> Cleanup:
    """Remove the record of ``user``, then everything it names that no other record names.

    What is left to do lies beside the records until it is done, so that a cleanup that was cut
    short goes on when it is run again. The others' records are read anew before each removal; a
    stage that begins to use an artifact in that moment finds it damaged, and makes it again.

    Raises:
        DataError: a record cannot be read; nothing is removed that it may name.
    """
    left_key = _key(_LEAVING, user)
    prefixes = {
        prefix
        for key in (left_key, _key(_USERS, user))
        if (uses := _read(store, key)) is not None
        for prefix in uses.prefixes
        if _REMOVABLE.fullmatch(prefix)
    }
    if prefixes:
        left = Uses(user=user, prefixes=tuple(sorted(prefixes)))
        store.put(left_key, documents.dump(left))
    store.delete(_key(_USERS, user))
    removed, kept, objects = [], [], 0
    for prefix in sorted(prefixes):
        if prefix in _used(store):
            kept.append(prefix)
        else:
            objects += artifacts.remove(store, prefix)
            removed.append(prefix)
    store.delete(left_key)
    return Cleanup(removed=tuple(removed), kept=tuple(kept), objects=objects)


def _used(store: Store) -> set[str]:
    return {prefix for uses in _records(store) for prefix in uses.prefixes}


def _records(store: Store) -> Iterator[Uses]:
    for key in store.keys(f"{_USERS}/"):
        uses = _read(store, key)
        if uses is not None:  # else it vanished while others were read
            yield uses


def _read(store: Store, key: str) -> Uses | None:
    try:
        return documents.load(Uses, store.get(key), name=f"{store.uri}: {key}")
    except KeyError:
        return None


def _key(folder: str, user: str) -> str:
    return f"{folder}/{user}.json"
