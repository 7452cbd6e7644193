"""Lines of events, in sequential and batch topics: locks, arrivals, lined-up rows (ADR 12).

A line is the events of one ordering key of a topic; a transaction that changes it holds its bucket,
an advisory lock. Only `hold` waits. Known limit: all but the surveys and the horizon run in one
transaction, after a statement that has locked the bucket: only a later one's snapshot shows the
changes of the bucket's last holder.
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
from inboxd.store.rows import ClaimedEvent, claimed_events
from inboxd.store.session import Session

# Modes of topics whose events have lines and are processed one by one.
IN_ORDER = frozenset({"sequential", "relay"})


class Arrived(NamedTuple):
    """age: seconds. mode: sequential, batch, or relay (sequential, published by a relay)."""

    topic: str
    bucket: int
    first: int
    mode: str
    type: str
    age: float


class Line(NamedTuple):
    topic: str
    bucket: int
    key: str


class Head(NamedTuple):
    """A line's head that is due; run_at: seconds since the epoch; lane: index of its lane."""

    line: Line
    id: int
    run_at: float
    lane: int


class Surveyed(NamedTuple):
    """arrived: rows without a position in their lines. heads: due or not, with the topic's mode."""

    arrived: list[Arrived]
    heads: list[tuple[Sighting, str]]


class IdRange(NamedTuple):
    """The ids of a bucket that may be taken: above `after`, up to `bound`."""

    topic: str
    bucket: int
    after: int
    bound: int


async def read_horizon(session: Session) -> HorizonReading:
    """The newest id, and the transactions that may still commit earlier ids."""
    row = await session.one("read_horizon")
    holders = {
        holder: Holding(frozenset(buckets), frozenset([ANY_TOPIC] if topics is None else topics))
        for holder, buckets, topics in orjson.loads(row["holders"])
    }
    return HorizonReading(row["server"], row["newest"], holders, frozenset(row["topics"]))


async def survey(session: Session) -> Surveyed:
    arrived = [Arrived(*row) for row in await session.fetch("survey_arrivals")]
    rows = await session.fetch("survey_heads")
    heads = [(Sighting((row[0], row[1]), row["oldest"], row["next"]), row["mode"]) for row in rows]
    return Surveyed(arrived, heads)


async def look(
    session: Session, cursors: Sequence[tuple[Bucket, int]]
) -> list[tuple[Bucket, int, str]]:
    """The buckets with arrivals after their cursors, with the id and type of the first one."""
    rows = await session.fetch(
        "look_arrivals",
        [topic for (topic, _), _ in cursors],
        [bucket for (_, bucket), _ in cursors],
        [after for _, after in cursors],
    )
    return [(cursors[row["lane"] - 1][0], row["first"], row["type"]) for row in rows]


async def due_heads(session: Session, lanes: Sequence[Lane], heads: int) -> list[Head]:
    """At most `heads` due heads of these lanes (topic, type); locks nothing."""
    rows = await session.fetch("due_heads", *cursors(lanes, 0, 1), heads)
    return [
        Head(Line(row[0], row[1], row[2]), row["id"], row["run_at"], row["lane"] - 1)
        for row in rows
    ]


async def try_buckets(
    session: Session, buckets: Sequence[Bucket], most: int | None = None
) -> list[Bucket]:
    """Lock the first `most` of these buckets that are free, until the transaction ends."""
    rows = await session.fetch(
        "try_buckets",
        [topic for topic, _ in buckets],
        [bucket for _, bucket in buckets],
        len(buckets) if most is None else most,
    )
    return [buckets[row["lane"] - 1] for row in rows]


async def hold(session: Session, buckets: Sequence[Bucket]) -> None:
    """Lock these buckets until the transaction ends; waits for other holders."""
    await session.execute(
        "hold_buckets", [topic for topic, _ in buckets], [bucket for _, bucket in buckets]
    )


async def claim_arrivals(
    session: Session, ranges: Sequence[IdRange], rows: int, share: int | None = None
) -> list[ClaimedEvent]:
    """At most `rows` arrivals of locked buckets, `share` of each; `lane` counts from 1."""
    found = await session.fetch(
        "claim_arrivals",
        *columns(ranges, "topic", "bucket", "after", "bound"),
        rows,
        rows if share is None else share,
    )
    return claimed_events(found)


async def claim_lined_up(session: Session, lines: Sequence[Line], rows: int) -> list[ClaimedEvent]:
    """At most `rows` rows of lines with due heads, from the heads on; `lane` counts from 1."""
    found = await session.fetch(
        "claim_lined_up", [line.topic for line in lines], [line.key for line in lines], rows
    )
    return claimed_events(found)


async def line_up(session: Session, ids: Sequence[int]) -> None:
    await session.execute("line_up_events", ids)


async def leave_line(session: Session, ids: Sequence[int]) -> None:
    await session.execute("leave_line", ids)


async def fail_heads(session: Session, ids: Sequence[int], error: str, waited: timedelta) -> int:
    """Turn heads into dead letters that were unhandled for `waited`; returns their number."""
    return len(await session.fetch("fail_unhandled_heads", ids, error, waited))


# ----------------------------------------------------------------------------- for operators


class BlockedLines(NamedTuple):
    """Blocked lines of a topic; oldest: seconds since the first of them was blocked."""

    topic: str
    held_by: str
    lines: int
    oldest: float


# Lines of each topic (and type) that are looked at, at most.
HOLDERS = 1_000


async def count_blocked(session: Session) -> list[BlockedLines]:
    rows = await session.fetch("count_blocked_lines", HOLDERS)
    return [BlockedLines(*row) for row in rows]


async def blocked(session: Session, topic: str | None, most: int) -> list[dict[str, Any]]:
    rows = await session.fetch("blocked_lines", topic, most)
    return [dict(row) for row in rows]
