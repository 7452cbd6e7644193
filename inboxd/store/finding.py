"""Looks of a list at hot and settled rows: a look reads rows by descending id, returns hits.

Promises that a look reads a bounded number of rows, and that all looks of a `snapshot` see one
state.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Indexes that finished days of history may have; the more selective first.
Index: TypeAlias = Literal["entity", "tenant", "type"]
Days: TypeAlias = tuple[datetime, datetime]
# Which time of a row `since` and `until` refer to; see Filter.by.
When: TypeAlias = Literal["created", "ended", "failed", "done", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The filter of a list of rows. None, or an empty collection, matches any row.

    lane: topic or queue. since: created at or after it. until: settled before it, or if unsettled,
    created before it. by: another meaning of that time: "ended" (settled or a dead letter),
    "failed" (one of the newest 50 attempts failed), "done" (either), "waiting" (not ended). error:
    text in the newest error. payload: JSON texts, of which one is in it. commands: statuses of its
    commands.
    """

    type: str | None = None
    statuses: Collection[str] = ()
    tenant: str | None = None
    lane: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    error: str | None = None
    payload: Sequence[str] = ()
    entity_type: str | None = None
    entity_id: str | None = None
    commands: Collection[str] = ()
    by: When = "created"

    def arguments(self) -> tuple[object, ...]:
        return (
            *(self.type, list(self.statuses) or None, self.tenant, self.lane),
            *(self.since, self.until, self.error, list(self.payload) or None),
            *(self.entity_type, self.entity_id, list(self.commands) or None),
            None if self.by == "created" else self.by,
        )

    def names(self, index: Index) -> bool:
        """Whether the filter selects one value of that index's columns."""
        if index == "entity":
            return self.entity_type is not None and self.entity_id is not None
        return (self.tenant if index == "tenant" else self.type) is not None


@dataclass(frozen=True, slots=True)
class Turn:
    table: HotTable
    wanted: Filter
    below: int
    rows: int
    limit: int

    def arguments(self) -> tuple[object, ...]:
        return (*self.wanted.arguments(), self.below, self.rows, self.limit)


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of one look; see `find_{table}.sql`. hits: ids and finished_at, ids descending."""

    looked: int
    high: int | None
    low: int | None
    low_created_at: datetime | None
    ended: datetime | None
    blocks: int
    hits: Sequence[tuple[int, datetime | None]]


@dataclass(frozen=True, slots=True)
class View:
    """The state before the first look; commands: the days of their history.

    indexed: the newest unbroken range of days with the requested index. lowest: days of history,
    newest first, each with its lowest id; None: not known.
    """

    now: datetime
    commands: int
    indexed: Days | None
    lowest: Sequence[tuple[Days, int | None]]

    def days(self, low: datetime, high: datetime, without: Sequence[Days] = ()) -> int:
        return sum(
            first < high and end > low and not any(a <= first and end <= b for a, b in without)
            for (first, end), _ in self.lowest
        )

    def newer(self, below: int) -> Days | None:
        """The longest unbroken range of days without rows below an id; None: all may have some."""
        found: Days | None = None
        longest: Days | None = None
        for (low, high), lowest in self.lowest:
            if lowest is None or lowest < below:
                found = None
                continue
            found = (low, found[1] if found else high)
            if longest is None or found[1] - found[0] > longest[1] - longest[0]:
                longest = found
        return longest


@asynccontextmanager
async def snapshot(session: Session, table: HotTable, index: Index | None) -> AsyncIterator[View]:
    """One snapshot of the database for the `async with` block; at first, looks walk indexes."""
    async with session.reading(snapshot=True):
        yield await begin_looks(session, table, index)


async def begin_looks(session: Session, table: HotTable, index: Index | None) -> View:
    """Make looks walk an index until the transaction ends; returns the state before them."""
    found = await session.one("begin_looks", f"{table}_history", index)
    lows, highs, indexed = found["low"] or [], found["high"] or [], found["indexed"] or []
    days = list(zip(lows, highs, strict=True))
    lowest = list(zip(days, found["low_id"] or [], strict=True))
    return View(found["now"], found["commands"], _in_a_row(lows, highs, indexed), lowest)


def _in_a_row(
    lows: Sequence[datetime], highs: Sequence[datetime], indexed: Sequence[bool]
) -> Days | None:
    found: Days | None = None
    for low, high, has_it in zip(lows, highs, indexed, strict=True):
        if has_it:
            found = (low, found[1] if found else high)
        elif found:
            break
    return found


async def plan_looks(session: Session, *, walk: bool) -> None:
    """Make looks walk an index, or else read each block once, until the transaction ends."""
    await session.execute("plan_looks", walk)


async def look_at_unsettled(session: Session, turn: Turn) -> Looked:
    table = turn.table
    return _look(await session.one(f"find_{table}", *turn.arguments()))


async def look_at_settled(
    session: Session, turn: Turn, days: Days, without: tuple[Days, Days], *, dense: bool = False
) -> Looked:
    """dense: look at a range of `turn.rows` ids instead, and read each block once."""
    table, given = turn.table, (*turn.arguments(), *days, *without[0], *without[1])
    if dense:
        return _look(await session.one(f"find_{table}_in_range", *given))
    return _look(await session.one(f"find_{table}_settled", *given))


async def look_by_index(session: Session, turn: Turn, index: Index, days: Days) -> Looked:
    table, given = turn.table, (*turn.arguments(), *days)
    if index == "entity":
        return _look(await session.one(f"find_{table}_by_entity", *given))
    if index == "tenant":
        return _look(await session.one(f"find_{table}_by_tenant", *given))
    return _look(await session.one(f"find_{table}_by_type", *given))


async def rows(
    session: Session, table: HotTable, hits: Sequence[tuple[int, datetime | None]]
) -> list[Row]:
    return await session.fetch(f"found_{table}", *hits_given(hits))


async def statuses(
    session: Session, table: HotTable, hits: Sequence[tuple[int, datetime | None]]
) -> list[Row]:
    return await session.fetch(f"statuses_{table}", *hits_given(hits))


def hits_given(hits: Sequence[tuple[int, datetime | None]]) -> tuple[object, ...]:
    unsettled = [id_ for id_, finished in hits if finished is None]
    settled = [(id_, finished) for id_, finished in hits if finished is not None]
    ids, finished_at = [id_ for id_, _ in settled], [finished for _, finished in settled]
    ends = (min(finished_at, default=None), max(finished_at, default=None))
    return (unsettled, ids, finished_at, *ends)


async def commands_of(
    session: Session, events: Sequence[tuple[int, UUID, datetime]], limit: int, within: timedelta
) -> list[Row]:
    """events: (id, event_id, created_at). Each has `limit` commands, settled `within` that time."""
    columns = [list(column) for column in zip(*events, strict=True)] or [[], [], []]
    return await session.fetch("commands_of_events", *columns, limit, within)


async def of_key(
    session: Session,
    key: str,
    topics: Collection[str],
    queues: Collection[str],
    types: Collection[str],
    limit: int,
) -> list[Row]:
    """Unsettled rows with this ordering key or unique key, in these lanes: `rows_of_key.sql`."""
    lanes = (list(topics), list(queues), list(types))
    return await session.fetch("rows_of_key", key, *lanes, limit)


async def correlated(
    session: Session, correlation_id: str, look: int, limit: int, since: datetime
) -> list[Row]:
    """Among the newest rows of each table, those with this correlation id: `correlated.sql`."""
    return await session.fetch("correlated", correlation_id, look, limit, since)


async def lowest_after(
    session: Session, table: HotTable, at: datetime, days: Days, *, none: int, near: int
) -> Row | None:
    """An id above which no row was settled before `at`, and probes: `lowest_after_{table}.sql`."""
    return await session.fetchrow(f"lowest_after_{table}", at, *days, none, near)


def _look(row: Row) -> Looked:
    ids, finished = row["ids"] or [], row["finished"] or []
    return Looked(
        *(row["looked"], row["high"], row["low"], row["low_created_at"], row["ended"]),
        row["blocks"],
        list(zip(ids, finished, strict=True)),
    )
