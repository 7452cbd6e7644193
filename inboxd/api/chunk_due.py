"""When a chunk of a batch topic is due, and which events belong to it.

Owns the arithmetic. Promises: it needs no memory, since a due time follows only from the time at
which an event was written. So a chunk that was missed while no worker ran is due when a worker
returns, and each period of a cron expression has its own chunk. Known limit: at the end of a
period, order wins over the clock: if two events are written within the same microseconds, the event
that comes later in the chunk's order may carry the earlier time; it then counts to the later
period. *See:* `events/chunks/visit.py`, which calls this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from inboxd.api.cron import Cron
from inboxd.api.topics import Topic
from inboxd.errors import UsageError

# The age limit of a topic that declares none.
NEVER = timedelta(days=36_525)
# An event may carry a slightly earlier time than an event before it in the order.
SLACK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Rule:
    """When the chunks of a topic are due: at the first condition that is met.

    full: number of events that makes a chunk due; a chunk never has more. age: of its oldest event.
    cron: the first time after its oldest event was written; the chunk holds the events written
    before it. expected: the event types that complete a chunk, which then holds all events of its
    line.
    belongs: the events of a chunk were expected together, by their types or their number.
    """

    full: int | None = None
    age: timedelta | None = None
    cron: Cron | None = None
    expected: tuple[str, ...] = ()
    belongs: bool = False

    def closes_at(self, created_at: datetime) -> datetime | None:
        """The end of an event's period; None: there are no periods."""
        return None if self.cron is None else self.cron.after(created_at)

    def opened_at(self, closes_at: datetime) -> datetime | None:
        """The start of the period that ends at `closes_at`."""
        return None if self.cron is None else self.cron.before(closes_at)

    def period(self, created_at: datetime) -> tuple[datetime, datetime] | None:
        """The span in which events of the same chunk are written; None: there is no limit.

        It begins SLACK early: of two events, the later one may carry the earlier time.
        """
        closes_at = self.closes_at(created_at)
        if closes_at is None:
            return None
        return (self.opened_at(closes_at) or created_at) - SLACK, closes_at

    def takes(self, written: Sequence[datetime]) -> int:
        """The number of a line's oldest events that make the next chunk; `written`: their times."""
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
        """The expected types that are not in `types`, in the order of the declaration."""
        return tuple(each for each in self.expected if each not in types)

    def ends(self, since: datetime, until: datetime, most: int) -> list[datetime]:
        """The ends, at most `most`, of the periods of events written from `since` to `until`."""
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
        raise UsageError(f"no rule says when a chunk of {topic.name!r} is due.")
    return Rule(full, topic.age, topic.cron, expect or (), belongs=topic.expect is not None)
