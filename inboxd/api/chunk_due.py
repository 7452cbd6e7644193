"""When a chunk of a batch topic is due, and which events belong to it.

Owns the arithmetic. Promises: it needs no memory, since a due time follows from the time at which
an event was written alone, so what was missed while no worker ran is due when one comes back, and
each period of a cron expression has a chunk of its own. Known limit: where a period ends, order
beats the clock: of two events that are written within the same microseconds, the one that comes
later in the chunk's order may carry the earlier time, and then counts to the later period.
*See:* `events/chunks/visit.py`, which asks it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from inboxd.api.cron import Cron
from inboxd.api.topics import Topic
from inboxd.errors import UsageError

# For the age of a chunk that has none.
NEVER = timedelta(days=36_525)
# An event may have been written a little before one that comes earlier in the order.
SLACK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Rule:
    """When the chunks of a topic are due: whatever comes first of what is given.

    full: this number of events makes a chunk due, and none has more. age: of its oldest event.
    cron: the first time after its oldest event was written; the chunk holds what was written before
    that. expected: the event types that complete a chunk, which then holds all that its line has.
    belongs: the events of a chunk were expected together, by their types or their number.
    """

    full: int | None = None
    age: timedelta | None = None
    cron: Cron | None = None
    expected: tuple[str, ...] = ()
    belongs: bool = False

    def closes_at(self, created_at: datetime) -> datetime | None:
        """When the period ends to which an event belongs; None: there are no periods."""
        return None if self.cron is None else self.cron.after(created_at)

    def opened_at(self, closes_at: datetime) -> datetime | None:
        """When the period began that ends at `closes_at`."""
        return None if self.cron is None else self.cron.before(closes_at)

    def period(self, created_at: datetime) -> tuple[datetime, datetime] | None:
        """From when to when what is written belongs to the chunk of an event; None: to any.

        It begins a little early: of two events, the later one may carry the earlier time.
        """
        closes_at = self.closes_at(created_at)
        if closes_at is None:
            return None
        return (self.opened_at(closes_at) or created_at) - SLACK, closes_at

    def takes(self, written: Sequence[datetime]) -> int:
        """How many of a line's oldest events, given as times of writing, make the next chunk."""
        if not written:
            return 0
        period = self.period(written[0])
        most = len(written) if self.full is None else self.full
        if period is None:
            return min(most, len(written))
        opens_at, closes_at = period
        within = takewhile(lambda at: opens_at <= at < closes_at, islice(written, most))
        return sum(1 for _ in within)

    def missing(self, types: Collection[str]) -> tuple[str, ...]:
        """The expected types that are not among `types`, in the order of the declaration."""
        return tuple(each for each in self.expected if each not in types)

    def ends(self, since: datetime, until: datetime, most: int) -> list[datetime]:
        """The ends of the periods of what was written from `since` to `until`; `most`: how many."""
        if self.cron is None:
            return []
        found: list[datetime] = []
        for time in islice(self.cron.following(since), most):
            found.append(time)
            if time > until:
                break
        return found


def rule_of(topic: Topic) -> Rule:
    """The rule of a batch topic."""
    expect, full = topic.expect, topic.count
    if isinstance(expect, int):
        full, expect = expect, ()
    if full is None and topic.age is None and topic.cron is None:
        raise UsageError(f"when is a chunk of {topic.name!r} due?")
    return Rule(full, topic.age, topic.cron, expect or (), belongs=topic.expect is not None)
