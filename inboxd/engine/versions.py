"""Leaves a row to newer workers whose payload this worker's code cannot read.

Owns that decision. Promises that a rolling deploy makes no dead letters of
what only the newer workers can read, and that nothing waits for ever (promise 10). Known limits:
who can read which version is not known, only that workers differ; and the memory is this process's,
so with more than 10,000 such rows at a time, some wait longer than the grace.
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
    """Deferred for the sake of another worker, which should have the first go at it."""

    @classmethod
    def of(cls, outcome: Unsuccessful) -> "LeftToPeer":
        """The outcome of `FOR_ANOTHER`."""
        assert isinstance(outcome, Deferred)  # noqa: S101 - by what it is
        return cls(outcome.until, outcome.delay)


class VersionExemptions:
    """Since when each row was left to another worker."""

    def __init__(self, parts: Parts) -> None:
        """Leave rows alone for as long as a type may be without a worker that serves it."""
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
