"""The times of a story: when its rows waited, and when they were worked on.

Known limits: of attempts before the last only their ends are kept, so their durations count as
waiting; the duration of a dead letter's last attempt is not kept; a command is worked on from its
claim on, while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from inboxd.model.lifecycle import Status
from inboxd.model.story import RECEIPT, Key, Member, StoryNode

# early: the row was not due, or was between two attempts. due: it was due, but not begun. worked:
# its last attempt. dead: a dead letter, until an operator acts. batch: from its beginning to its
# end.
How = Literal["early", "due", "worked", "dead", "batch"]

WAITED: frozenset[How] = frozenset({"early", "due"})


@dataclass(frozen=True, slots=True)
class TimeStretch:
    """A part of a row's time. until: None if it goes on."""

    how: How
    since: datetime
    until: datetime | None

    def seconds(self, now: datetime) -> float:
        until = now if self.until is None else self.until
        return max((until - self.since).total_seconds(), 0.0)


@dataclass(frozen=True, slots=True)
class RowTimes:
    """failed, replayed: times, as far as kept. earlier: attempts that count as waiting."""

    began: datetime
    stretches: tuple[TimeStretch, ...] = ()
    failed: tuple[datetime, ...] = ()
    replayed: tuple[datetime, ...] = ()
    earlier: int = 0

    @property
    def goes_on(self) -> bool:
        return any(each.until is None for each in self.stretches)

    @property
    def ended(self) -> datetime | None:
        return None if self.goes_on else max((self.began, *self._ends()))

    def spent(self, hows: Iterable[How], now: datetime | None = None) -> float | None:
        """Seconds in stretches of these kinds; None: unknown, or it goes on without a `now`."""
        found = [each for each in self.stretches if each.how in hows]
        if not found and any(each.how == "worked" for each in self.stretches):
            return 0.0  # a row that was begun at once did not wait
        if not found or (now is None and any(each.until is None for each in found)):
            return None
        return sum(each.seconds(now or each.since) for each in found)

    def moments(self) -> Iterator[datetime]:
        yield self.began
        yield from self._ends()
        yield from (each.since for each in self.stretches)
        yield from (*self.failed, *self.replayed)

    def _ends(self) -> Iterator[datetime]:
        return (each.until for each in self.stretches if each.until is not None)


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A row of a story with its times; depth: number of its ancestors in the tree."""

    node: StoryNode
    times: RowTimes
    depth: int


@dataclass(frozen=True, slots=True)
class Waterfall:
    """worked: seconds in which a row was worked on. now: the end of stretches without one."""

    rows: tuple[PlacedRow, ...]
    since: datetime
    until: datetime
    now: datetime
    worked: float
    goes_on: bool

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()


def times_of(
    member: Member, failed: Sequence[datetime] = (), replayed: Sequence[datetime] = ()
) -> RowTimes:
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
    # A row dies at the end of its last attempt; if that is unknown, not before the attempt was due.
    died = max(marks[0][-1] if marks[0] else member.run_at or began, began)
    dead = TimeStretch("dead", died, _not_before(died, member.finished_at))
    waiting = _waiting(member, dead.since) if marks[0] else ()
    return RowTimes(began, (*waiting, dead), *marks, earlier)


def _worked(member: Member) -> TimeStretch | None:
    began = member.created_at
    if member.status == Status.RUNNING and member.started_at is not None:
        return TimeStretch("worked", max(member.started_at, began), None)
    if member.finished_at is None or member.seconds is None:
        return None
    ended = max(member.finished_at, began)
    return TimeStretch("worked", ended - timedelta(seconds=member.seconds), ended)


def _waiting(member: Member, until: datetime | None) -> tuple[TimeStretch, ...]:
    began, due = member.created_at, member.run_at
    if member.status == Status.WAITING or due is None:
        return (TimeStretch("early", began, _not_before(began, until)),)
    due = max(due, began) if until is None else min(max(due, began), max(until, began))
    found = (TimeStretch("early", began, due), TimeStretch("due", due, _not_before(due, until)))
    return tuple(each for each in found if each.until is None or each.until > each.since)


def _not_before(first: datetime, at: datetime | None) -> datetime | None:
    """`at`, but not before `first`: a clock may have been set back between the two times."""
    return None if at is None else max(first, at)


def waterfall(
    top: StoryNode, times: Mapping[Key, RowTimes], now: datetime, *, to_now: bool = True
) -> Waterfall:
    """The axis ends with the last known time; if a row waits or runs, now. Not for dead rows."""
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
