"""The looks of a list at rows, hot and settled: so many by descending id, and which of them match.

Owns the statements of lists. Promises: a look reads at most as many rows as it was told, whatever
matches; all looks of a `snapshot` see the database as it was when it began.
*See:* `operations/finding.py`, before it: where to look next, and when to stop.
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

# What an index of days that are over is named by; in this order they tell more rows apart.
Index: TypeAlias = Literal["entity", "tenant", "type"]
Days: TypeAlias = tuple[datetime, datetime]
# What happened to a row at a time that is asked for.
When: TypeAlias = Literal["created", "ended", "failed", "done", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which rows a list shows; None (of what has several values, empty) takes any.

    lane: topic or queue. since: created since then. until: settled before then, or of an unsettled
    row: created. by: what was in that time instead: it ended, settled or as a dead letter; an
    attempt failed (of the newest 50); done, which is either; or it was waiting, there and not
    ended. error: what the newest error contains. payload: JSON texts of which the payload contains
    one. commands: statuses of which a command has one that the event enqueued.
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
        """As the statements take it, from $1 on."""
        return (
            *(self.type, list(self.statuses) or None, self.tenant, self.lane),
            *(self.since, self.until, self.error, list(self.payload) or None),
            *(self.entity_type, self.entity_id, list(self.commands) or None),
            None if self.by == "created" else self.by,
        )

    def names(self, index: Index) -> bool:
        """Whether it names one value of what that index has."""
        if index == "entity":
            return self.entity_type is not None and self.entity_id is not None
        return (self.tenant if index == "tenant" else self.type) is not None


@dataclass(frozen=True, slots=True)
class Turn:
    """What a look is to look at: so many rows below an id, of which at most `limit` are wanted."""

    table: HotTable
    wanted: Filter
    below: int
    rows: int
    limit: int

    def arguments(self) -> tuple[object, ...]:
        """As the statements take it, from $1 on."""
        return (*self.wanted.arguments(), self.below, self.rows, self.limit)


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look saw; see `find_{table}.sql`. hits: ids and finished_at, ids descending."""

    looked: int
    high: int | None
    low: int | None
    low_created_at: datetime | None
    ended: datetime | None
    blocks: int
    hits: Sequence[tuple[int, datetime | None]]


@dataclass(frozen=True, slots=True)
class View:
    """What is known before the first look.

    filled: how many days of history have any rows. indexed: the newest days that have the index
    that was asked for, one after the other; None: none has it.
    """

    now: datetime
    filled: int
    indexed: Days | None


@asynccontextmanager
async def snapshot(session: Session, table: HotTable, index: Index | None) -> AsyncIterator[View]:
    """One view of the database for the `async with` block; looks walk indexes at first."""
    async with session.reading(snapshot=True):
        yield await begin_looks(session, table, index)


async def begin_looks(session: Session, table: HotTable, index: Index | None) -> View:
    """Until the transaction ends, looks walk an index; and what is known before."""
    found = await session.one("begin_looks", f"{table}_history", index)
    lows, highs, indexed = found["low"] or [], found["high"] or [], found["indexed"] or []
    return View(found["now"], found["filled"], _in_a_row(lows, highs, indexed))


def _in_a_row(
    lows: Sequence[datetime], highs: Sequence[datetime], indexed: Sequence[bool]
) -> Days | None:
    """The first of these days that have an index, one after the other."""
    found: Days | None = None
    for low, high, has_it in zip(lows, highs, indexed, strict=True):
        if has_it:
            found = (low, found[1] if found else high)
        elif found:
            break
    return found


async def plan_looks(session: Session, *, walk: bool) -> None:
    """Until the transaction ends, looks walk an index, or else read each block once."""
    await session.execute("plan_looks", walk)


async def look_at_unsettled(session: Session, turn: Turn) -> Looked:
    """Look at unsettled rows."""
    table = turn.table
    return _look(await session.one(f"find_{table}", *turn.arguments()))


async def look_at_settled(
    session: Session, turn: Turn, days: Days, without: Days, *, dense: bool = False
) -> Looked:
    """Look at settled rows of these days, without some of them.

    dense: at so many ids in place of rows; planned to read each block once, wherever in it the rows
    stand.
    """
    table, given = turn.table, (*turn.arguments(), *days, *without)
    if dense:
        return _look(await session.one(f"find_{table}_in_range", *given))
    return _look(await session.one(f"find_{table}_settled", *given))


async def look_by_index(session: Session, turn: Turn, index: Index, days: Days) -> Looked:
    """Look at settled rows of the one type (tenant, entity), in days that have its index."""
    table, given = turn.table, (*turn.arguments(), *days)
    if index == "entity":
        return _look(await session.one(f"find_{table}_by_entity", *given))
    if index == "tenant":
        return _look(await session.one(f"find_{table}_by_tenant", *given))
    return _look(await session.one(f"find_{table}_by_type", *given))


async def rows(
    session: Session, table: HotTable, hits: Sequence[tuple[int, datetime | None]]
) -> list[Row]:
    """The rows that looks of this snapshot found, by id descending."""
    return await session.fetch(f"found_{table}", *hits_given(hits))


async def statuses(
    session: Session, table: HotTable, hits: Sequence[tuple[int, datetime | None]]
) -> list[Row]:
    """What became of the rows that looks of this snapshot found, by id descending."""
    return await session.fetch(f"statuses_{table}", *hits_given(hits))


def hits_given(hits: Sequence[tuple[int, datetime | None]]) -> tuple[object, ...]:
    """What looks found, as the statements take it that read rows."""
    unsettled = [id_ for id_, finished in hits if finished is None]
    settled = [(id_, finished) for id_, finished in hits if finished is not None]
    ids, finished_at = [id_ for id_, _ in settled], [finished for _, finished in settled]
    ends = (min(finished_at, default=None), max(finished_at, default=None))
    return (unsettled, ids, finished_at, *ends)


async def commands_of(
    session: Session, events: Sequence[tuple[int, UUID, datetime]], limit: int, within: timedelta
) -> list[Row]:
    """What events (id, event_id, created_at) enqueued, so many of each: `commands_of_events.sql`.

    within: what was settled later than that after its event is left out.
    """
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
    """Unsettled rows with that ordering key or unique key, in these lanes: `rows_of_key.sql`."""
    lanes = (list(topics), list(queues), list(types))
    return await session.fetch("rows_of_key", key, *lanes, limit)


async def correlated(
    session: Session, correlation_id: str, look: int, limit: int, since: datetime
) -> list[Row]:
    """Of the newest rows of each table those that have it: `correlated.sql`."""
    return await session.fetch("correlated", correlation_id, look, limit, since)


async def lowest_after(
    session: Session, table: HotTable, at: datetime, days: Days, *, none: int, near: int
) -> Row | None:
    """An id above which nothing was settled before then, and probes: `lowest_after_{table}.sql`."""
    return await session.fetchrow(f"lowest_after_{table}", at, *days, none, near)


def _look(row: Row) -> Looked:
    ids, finished = row["ids"] or [], row["finished"] or []
    return Looked(
        *(row["looked"], row["high"], row["low"], row["low_created_at"], row["ended"]),
        row["blocks"],
        list(zip(ids, finished, strict=True)),
    )
