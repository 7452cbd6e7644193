"""Leaves a row to newer workers if this worker's code cannot read its payload.

Promises that a rolling deploy makes no dead letters of rows that only newer workers can read, and
that no row waits forever (promise 10). Known limits: this worker knows that workers differ, but not
which of them can read a version; and it remembers 10,000 such rows, so with more of them some wait
longer than the grace.
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
    """Deferred so that another worker can claim the row first."""

    @classmethod
    def of(cls, outcome: Unsuccessful) -> "LeftToPeer":
        """outcome: a deferral, like `FOR_ANOTHER`."""
        assert isinstance(outcome, Deferred)  # noqa: S101 - the caller has checked it
        return cls(outcome.until, outcome.delay)


class VersionExemptions:
    """Remembers since when each row has been left to another worker."""

    def __init__(self, parts: Parts) -> None:
        """Leave a row for at most `worker.unhandled_grace`."""
        self._fleet = parts.fleet
        self._grace = parts.settings.worker.unhandled_grace.total_seconds()
        self._since: OrderedDict[int, float] = OrderedDict()

    def are_anothers(self, error: BaseException, row_id: int) -> bool:
        """Whether a row that is too new here should wait for a worker that can read it.

        While the workers differ, as in a rolling deploy, such a worker exists or will soon start.
        The row is deferred, which spends no attempt; after the grace it becomes a dead letter.
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
