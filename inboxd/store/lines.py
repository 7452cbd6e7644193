"""Lines of events, those of topics that are sequential or batch: locks, arrivals, lined-up rows.

Owns the statements on lines (ADR 12). A line is what one ordering key of a topic holds; whoever
changes it has its bucket, an advisory lock for the transaction. Promises that nothing here waits
but `hold`. Known limit: all but the surveys and the horizon belong into one transaction, in which
the bucket was taken by an earlier statement than the one that reads the line: only a later snapshot
shows what its last holder did.
*See:* `events/sources/sequential.py`, before it; `events/page_order.py` for what is written.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import orjson

from inboxd.model.arrivals import Bucket
from inboxd.model.horizon import ANY_TOPIC, Holding, HorizonReading
from inboxd.model.lane import Lane, Sighting
from inboxd.store.arrays import columns, cursors
from inboxd.store.connections import Connection, one_row
from inboxd.store.rows import ClaimedEvent, claimed_events
from inboxd.store.session import Session
from inboxd.store.statements import Statements

# How topics are processed whose events have lines, and go one by one.
IN_ORDER = frozenset({"sequential", "relay"})


class Arrived(NamedTuple):
    """The first of the rows that have just arrived in a bucket; age in seconds.

    mode: sequential, batch, or relay (sequential, and published by a relay).
    """

    topic: str
    bucket: int
    first: int
    mode: str
    type: str
    age: float


class Line(NamedTuple):
    """An ordering key of a topic, with its bucket."""

    topic: str
    bucket: int
    key: str


class Head(NamedTuple):
    """The head of a line that is due; run_at in seconds since the epoch, lane: its position."""

    line: Line
    id: int
    run_at: float
    lane: int


class Surveyed(NamedTuple):
    """What a look at all lines from their beginning saw.

    arrived: rows without a position in their lines; heads: those that wait, due or not, with the
    mode of their topic.
    """

    arrived: list[Arrived]
    heads: list[tuple[Sighting, str]]


class IdRange(NamedTuple):
    """What may be taken of a bucket: ids above `after`, up to `bound`."""

    topic: str
    bucket: int
    after: int
    bound: int


async def read_horizon(connection: Connection, sql: Statements) -> HorizonReading:
    """How far ids were drawn, and who may still have to commit some."""
    row = await one_row(connection, sql["read_horizon"])
    holders = {
        holder: Holding(frozenset(buckets), frozenset([ANY_TOPIC] if topics is None else topics))
        for holder, buckets, topics in orjson.loads(row["holders"])
    }
    return HorizonReading(row["server"], row["newest"], holders, frozenset(row["topics"]))


async def survey(connection: Connection, sql: Statements) -> Surveyed:
    """Every topic and bucket that has arrivals, every topic and type of heads that wait."""
    arrived = [Arrived(*row) for row in await connection.fetch(sql["survey_arrivals"])]
    rows = await connection.fetch(sql["survey_heads"])
    heads = [(Sighting((row[0], row[1]), row["oldest"], row["next"]), row["mode"]) for row in rows]
    return Surveyed(arrived, heads)


async def look(
    connection: Connection, sql: Statements, cursors: Sequence[tuple[Bucket, int]]
) -> list[tuple[Bucket, int, str]]:
    """Which of these buckets have arrivals behind their cursors: the first one's id and type."""
    rows = await connection.fetch(
        sql["look_arrivals"],
        [topic for (topic, _), _ in cursors],
        [bucket for (_, bucket), _ in cursors],
        [after for _, after in cursors],
    )
    return [(cursors[row["lane"] - 1][0], row["first"], row["type"]) for row in rows]


async def due_heads(
    connection: Connection, sql: Statements, lanes: Sequence[Lane], heads: int
) -> list[Head]:
    """Up to so many heads that are due in these lanes of (topic, type); nothing is locked."""
    rows = await connection.fetch(
        sql["due_heads"],
        *cursors(lanes, 0, 1),
        heads,
    )
    return [
        Head(Line(row[0], row[1], row[2]), row["id"], row["run_at"], row["lane"] - 1)
        for row in rows
    ]


async def try_buckets(
    connection: Connection, sql: Statements, buckets: Sequence[Bucket], most: int | None = None
) -> list[Bucket]:
    """Take those of these buckets that nobody has, the first `most`, until the transaction ends."""
    rows = await connection.fetch(
        sql["try_buckets"],
        [topic for topic, _ in buckets],
        [bucket for _, bucket in buckets],
        len(buckets) if most is None else most,
    )
    return [buckets[row["lane"] - 1] for row in rows]


async def hold(connection: Connection, sql: Statements, buckets: Sequence[Bucket]) -> None:
    """Take these buckets until the transaction ends, waiting for who has them."""
    await connection.execute(
        sql["hold_buckets"], [topic for topic, _ in buckets], [bucket for _, bucket in buckets]
    )


async def claim_arrivals(
    connection: Connection,
    sql: Statements,
    ranges: Sequence[IdRange],
    rows: int,
    share: int | None = None,
) -> list[ClaimedEvent]:
    """Up to `rows` arrivals of buckets that are held, `share` of each; `lane` counts from 1."""
    found = await connection.fetch(
        sql["claim_arrivals"],
        *columns(ranges, "topic", "bucket", "after", "bound"),
        rows,
        rows if share is None else share,
    )
    return claimed_events(found)


async def claim_lined_up(
    connection: Connection, sql: Statements, lines: Sequence[Line], rows: int
) -> list[ClaimedEvent]:
    """Up to `rows` rows of lines whose heads are due, from the heads on; `lane` counts from 1."""
    found = await connection.fetch(
        sql["claim_lined_up"], [line.topic for line in lines], [line.key for line in lines], rows
    )
    return claimed_events(found)


async def line_up(connection: Connection, sql: Statements, ids: Sequence[int]) -> None:
    """Give arrivals their positions at the ends of their lines."""
    await connection.execute(sql["line_up_events"], ids)


async def leave_line(connection: Connection, sql: Statements, ids: Sequence[int]) -> None:
    """Let dead letters leave their lines."""
    await connection.execute(sql["leave_line"], ids)


async def fail_heads(
    connection: Connection, sql: Statements, ids: Sequence[int], error: str, waited: timedelta
) -> int:
    """Make dead letters of heads that nobody has handled for so long; returns of how many."""
    return len(await connection.fetch(sql["fail_unhandled_heads"], ids, error, waited))


# ----------------------------------------------------------------------------- for operators


class BlockedLines(NamedTuple):
    """Lines of a topic that stand still; oldest: since when, in seconds."""

    topic: str
    held_by: str
    lines: int
    oldest: float


# Lines of each topic (and type) that are looked at.
HOLDERS = 1_000


async def count_blocked(connection: Connection, sql: Statements) -> list[BlockedLines]:
    """How many lines stand still in each topic, behind a dead letter or a retry."""
    rows = await connection.fetch(sql["count_blocked_lines"], HOLDERS)
    return [BlockedLines(*row) for row in rows]


async def blocked(session: Session, topic: str | None, most: int) -> list[dict[str, Any]]:
    """The lines that stand still, those first that have for longest; None: of any topic."""
    rows = await session.fetch("blocked_lines", topic, most)
    return [dict(row) for row in rows]
