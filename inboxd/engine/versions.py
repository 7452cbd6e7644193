"""Leaves a row to newer workers if this worker's code cannot read its payload.

Owns that decision. Promises that a rolling deploy makes no dead letters of rows that only newer
workers can read, and that no row waits forever (promise 10). Known limits: it is only known that
workers differ, not which one can read a version; and the memory belongs to this process, so with
more than 10,000 such rows at a time, some wait longer than the grace.
"""

from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

from inboxd.engine.parts import Parts
from inboxd.errors import Defer, TooNew
from inboxd.model.outcome import Deferred, Unsuccessful

# The outcome of a row that another worker can read: it has two seconds to take it.
FOR_ANOTHER = Defer(after=2)
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class LeftToPeer(Deferred):
    """Deferred for another worker, which should take it first."""

    @classmethod
    def of(cls, outcome: Unsuccessful) -> "LeftToPeer":
        """outcome: a deferral, as that of `FOR_ANOTHER`."""
        assert isinstance(outcome, Deferred)  # noqa: S101 - by what it is
        return cls(outcome.until, outcome.delay)


class VersionExemptions:
    """Remembers since when each row is left to another worker."""

    def __init__(self, parts: Parts) -> None:
        """Leave a row for at most `worker.unhandled_grace`."""
        self._fleet = parts.fleet
        self._grace = parts.settings.worker.unhandled_grace.total_seconds()
        self._since: OrderedDict[int, float] = OrderedDict()

    def are_anothers(self, error: BaseException, row_id: int) -> bool:
        """Whether a row that is too new here should wait for a worker that can read it.

        In a rolling deploy there is one, or soon will be: for a while workers differ. The row is
        deferred then, which spends no attempt; after the grace it is a dead letter.
        """
        if not isinstance(error, TooNew) or not self._fleet.differs:
            return False
        since = self._since.setdefault(row_id, monotonic())
        if len(self._since) > _REMEMBERED:
            self._since.popitem(last=False)
        if monotonic() - since < self._grace:
            return True
        del self._since[row_id]
        return False
