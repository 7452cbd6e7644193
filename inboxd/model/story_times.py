"""Where the time of a story went: when its rows waited, and when something worked on them.

Owns how a row's times are put together from what its columns keep. Promises that nothing is told
which no column holds, and that what goes on has no end.
Known limits: of attempts before the last one only their ends are kept, so what these took is among
the waiting; what a dead letter's last attempt took is not kept; a command is worked on from its
claim, as long as it runs.
*See:* `model/story.py`, for the rows; `model/story_drawing.py`, for the texts made of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from inboxd.model.lifecycle import Status
from inboxd.model.story import RECEIPT, Key, Member, StoryNode

# early: it was not due, or between two attempts. due: it was, and nobody had begun. worked: its
# last attempt. dead: a dead letter, until somebody acts. batch: from its beginning to its end.
How = Literal["early", "due", "worked", "dead", "batch"]

WAITED: frozenset[How] = frozenset({"early", "due"})


@dataclass(frozen=True, slots=True)
class TimeStretch:
    """A part of a row's time. until: None, it goes on."""

    how: How
    since: datetime
    until: datetime | None

    def seconds(self, now: datetime) -> float:
        """How long it is, up to now if it goes on."""
        until = now if self.until is None else self.until
        return max((until - self.since).total_seconds(), 0.0)


@dataclass(frozen=True, slots=True)
class RowTimes:
    """The times of one row.

    stretches: one after the other. failed: when attempts failed, as far as that is kept. replayed:
    when it was told to run again in its place. earlier: attempts that are among the waiting.
    """

    began: datetime
    stretches: tuple[TimeStretch, ...] = ()
    failed: tuple[datetime, ...] = ()
    replayed: tuple[datetime, ...] = ()
    earlier: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether it has no end yet."""
        return any(each.until is None for each in self.stretches)

    @property
    def ended(self) -> datetime | None:
        """When it ended; None: it goes on."""
        return None if self.goes_on else max((self.began, *self._ends()))

    def spent(self, hows: Iterable[How], now: datetime | None = None) -> float | None:
        """Seconds in stretches of these kinds; None: nothing is known, or it goes on and no now."""
        found = [each for each in self.stretches if each.how in hows]
        if not found and any(each.how == "worked" for each in self.stretches):
            return 0.0  # what was begun at once has waited for nothing
        if not found or (now is None and any(each.until is None for each in found)):
            return None
        return sum(each.seconds(now or each.since) for each in found)

    def moments(self) -> Iterator[datetime]:
        """All that is known to have happened."""
        yield self.began
        yield from self._ends()
        yield from (each.since for each in self.stretches)
        yield from (*self.failed, *self.replayed)

    def _ends(self) -> Iterator[datetime]:
        return (each.until for each in self.stretches if each.until is not None)


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A row of a story with its times; depth: below how many others."""

    node: StoryNode
    times: RowTimes
    depth: int


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The rows of a story over one time. worked: seconds in which one of them at least was.

    until: where the time that is drawn ends; now: what goes on does so up to then.
    """

    rows: tuple[PlacedRow, ...]
    since: datetime
    until: datetime
    now: datetime
    worked: float
    goes_on: bool

    @property
    def seconds(self) -> float:
        """How long all of it is."""
        return (self.until - self.since).total_seconds()


def times_of(
    member: Member, failed: Sequence[datetime] = (), replayed: Sequence[datetime] = ()
) -> RowTimes:
    """The times of a row, from its columns and from when its attempts failed."""
    began = member.created_at
    marks = tuple(sorted(failed)), tuple(sorted(replayed))
    if member.kind == RECEIPT:
        return RowTimes(began)
    if member.kind == "batch":
        how: How = "early" if member.status == Status.WAITING else "batch"
        return RowTimes(began, (TimeStretch(how, began, _not_before(began, member.finished_at)),))
    worked = _worked(member)
    if worked is not None:
        waiting = _waiting(member, worked.since)
        last = 0 if member.status == Status.RUNNING else 1
        earlier = max(member.attempts - last, len(marks[0]), 0)
        return RowTimes(began, (*waiting, worked), *marks, earlier)
    earlier = max(member.attempts, len(marks[0]))
    if member.status not in (Status.FAILED, Status.DISMISSED):
        return RowTimes(began, _waiting(member, member.finished_at), *marks, earlier)
    # When it died is the end of its last attempt; or else at the earliest when that was due.
    died = max(marks[0][-1] if marks[0] else member.run_at or began, began)
    dead = TimeStretch("dead", died, _not_before(died, member.finished_at))
    waiting = _waiting(member, dead.since) if marks[0] else ()
    return RowTimes(began, (*waiting, dead), *marks, earlier)


def _worked(member: Member) -> TimeStretch | None:
    """Its last attempt, if it is known when that began."""
    began = member.created_at
    if member.status == Status.RUNNING and member.started_at is not None:
        return TimeStretch("worked", max(member.started_at, began), None)
    if member.finished_at is None or member.seconds is None:
        return None
    ended = max(member.finished_at, began)
    return TimeStretch("worked", ended - timedelta(seconds=member.seconds), ended)


def _waiting(member: Member, until: datetime | None) -> tuple[TimeStretch, ...]:
    """From its creation until then: what it was not due, and what it was."""
    began, due = member.created_at, member.run_at
    if member.status == Status.WAITING or due is None:
        return (TimeStretch("early", began, _not_before(began, until)),)
    due = max(due, began) if until is None else min(max(due, began), max(until, began))
    found = (TimeStretch("early", began, due), TimeStretch("due", due, _not_before(due, until)))
    return tuple(each for each in found if each.until is None or each.until > each.since)


def _not_before(first: datetime, at: datetime | None) -> datetime | None:
    """Clocks may have been set back between two of a row's times."""
    return None if at is None else max(first, at)


def waterfall(
    top: StoryNode, times: Mapping[Key, RowTimes], now: datetime, *, to_now: bool = True
) -> Waterfall:
    """The rows of a tree over one time.

    It ends with what happened last; where something waits or runs, now. A dead letter does not
    keep it going: it may stay for weeks. to_now: False leaves it at what happened last.
    """
    rows = tuple(PlacedRow(node, times[node.member.key], depth) for node, depth in with_depth(top))
    known = [at for row in rows for at in row.times.moments() if at <= now]
    since = min((row.times.began for row in rows), default=now)
    last = max(known, default=since)
    moving = any(
        each.until is None and each.how != "dead" for row in rows for each in row.times.stretches
    )
    until = max(now, last) if moving and to_now else last
    return Waterfall(rows, since, max(until, since), now, _union(rows, until), moving)


def with_depth(top: StoryNode) -> Iterator[tuple[StoryNode, int]]:
    """Each row of a tree after its parent, with how deep it is."""
    todo = [(top, 0)]
    while todo:
        node, depth = todo.pop()
        yield node, depth
        todo.extend((child, depth + 1) for child in reversed(node.children))


def _union(rows: Sequence[PlacedRow], until: datetime) -> float:
    """Seconds in which at least one row was worked on."""
    parts = sorted(
        (each.since, until if each.until is None else each.until)
        for row in rows
        for each in row.times.stretches
        if each.how == "worked"
    )
    total, reached = 0.0, None
    for since, end in parts:
        begin = since if reached is None else max(since, reached)
        total += max((end - begin).total_seconds(), 0.0)
        reached = end if reached is None else max(reached, end)
    return total
