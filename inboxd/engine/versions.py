"""Leaves a row to newer workers if this worker's code cannot read its payload.

A rolling deploy makes no dead letters of such rows, and no row waits forever (promise 10). Known
limit: this worker remembers 10,000 such rows; with more, some wait longer than the grace.
"""

from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

from inboxd.engine.parts import Parts
from inboxd.errors import Defer, TooNew
from inboxd.model.outcome import Deferred, Unsuccessful

# The outcome of a row that another worker can read; that worker has two seconds to claim it.
FOR_ANOTHER = Defer(after=2)
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class LeftToPeer(Deferred):
    @classmethod
    def of(cls, outcome: Unsuccessful) -> "LeftToPeer":
        assert isinstance(outcome, Deferred)  # noqa: S101 - the caller has checked it
        return cls(outcome.until, outcome.delay)


class VersionExemptions:
    def __init__(self, parts: Parts) -> None:
        """Leave a row for at most `worker.unhandled_grace`."""
        self._fleet = parts.fleet
        self._grace = parts.settings.worker.unhandled_grace.total_seconds()
        self._since: OrderedDict[int, float] = OrderedDict()

    def are_anothers(self, error: BaseException, row_id: int) -> bool:
        """The row waits while workers differ, as in a rolling deploy, but not past the grace."""
        if not isinstance(error, TooNew) or not self._fleet.differs:
            return False
        since = self._since.setdefault(row_id, monotonic())
        if len(self._since) > _REMEMBERED:
            self._since.popitem(last=False)
        if monotonic() - since < self._grace:
            return True
        del self._since[row_id]
        return False
