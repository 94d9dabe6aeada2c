"""Whether everything that was there at the start has been seen; only then may be decided. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection


class Filling:
    """Counts down from the objects that were listed before the watches began.

    kopf could wait for its own indexes instead, but at a cost that grows faster than with the
    square of the objects: with 500 jobs and all that belongs to them, for minutes.
    """

    def __init__(self, filled: Callable[[], None]) -> None:
        """``filled`` is called once."""
        self._filled = filled
        self._unseen: set[str] | None = None

    @property
    def is_over(self) -> bool:
        """Nothing is waited for any more."""
        return self._unseen is not None and not self._unseen

    def expect(self, uids: Collection[str]) -> None:
        """What is there. Called again, what is not there any more is not waited for."""
        if self.is_over:
            return
        self._unseen = set(uids) if self._unseen is None else self._unseen & set(uids)
        self._tell()

    def saw(self, uid: str) -> None:
        """An object arrived, or its end did."""
        if self._unseen and uid in self._unseen:
            self._unseen.remove(uid)
            self._tell()

    def _tell(self) -> None:
        if not self._unseen:
            self._filled()
