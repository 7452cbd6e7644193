"""Chunks of batch topics: lining up arrivals, finding due chunks, reading and settling them.

Promises a fixed number of statements for a chunk, or one per portion of memory. Known limit: all
run in one transaction, in which an earlier statement has locked the bucket (ADR 13).
*See:* `events/chunks/visit.py` and `events/chunks/making.py`, which call it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from inboxd.api.chunk_due import NEVER
from inboxd.model.arrivals import Bucket
from inboxd.store import lines
from inboxd.store.rows import ClaimedEvent, claimed_events
from inboxd.store.session import Session

# Positions per statement, so that none exceeds its time limit.
_STRETCH_POSITIONS = 20_000


class OpenLine(NamedTuple):
    """postponed: the head has a later time, since its chunk is retried or deferred."""

    key: str
    id: int
    position: int
    last: int
    attempts: int
    crashes: int
    created_at: datetime
    run_at: datetime
    now: datetime
    postponed: bool

    @property
    def length(self) -> int:
        """The number of its events, at most: operators may have taken some out."""
        return self.last - self.position + 1


class PositionRange(NamedTuple):
    """Events of a line, from a first to a last position, both included."""

    topic: str
    key: str
    first: int
    last: int


class Common(NamedTuple):
    """Values that all events of a chunk share; None: the values differ, or there are none."""

    correlation_id: str | None
    tenant: str | None


class LinedUp(NamedTuple):
    """Lines that got events; the number of events lined up or rejected; their largest id."""

    keys: list[str]
    rows: int
    last: int


async def line_up_arrivals(
    session: Session,
    arrived: lines.IdRange,
    rows: int,
    age: timedelta,
    ends: Sequence[datetime],
    types: Iterable[str],
) -> LinedUp:
    found = await session.fetch("line_up_arrivals", *arrived, rows, age, list(ends), list(types))
    if not found:
        return LinedUp([], 0, arrived.after)
    keys = [row[0] for row in found if row[0] is not None]
    return LinedUp(keys, found[0]["rows"], found[0]["last"])


async def complete(
    session: Session, topic: str, keys: Sequence[str], full: int | None, expected: Sequence[str]
) -> None:
    await session.execute("complete_chunks", topic, keys, full, list(expected))


async def open_lines(
    session: Session, topic: str, keys: Sequence[str], most: int, *, due: bool = True
) -> list[OpenLine]:
    rows = await session.fetch("open_lines", topic, keys, most, not due)
    return [OpenLine(*row) for row in rows]


async def read_lines(
    session: Session, topic: str, wanted: Sequence[tuple[OpenLine, int]]
) -> list[list[ClaimedEvent]]:
    """The oldest events of each line, at most the wanted number; in the order of `wanted`."""
    rows = await session.fetch(
        "read_chunks",
        topic,
        [line.key for line, _ in wanted],
        [line.position for line, _ in wanted],
        [most for _, most in wanted],
    )
    found: list[list[ClaimedEvent]] = [[] for _ in wanted]
    for row in claimed_events(rows):
        found[row["lane"] - 1].append(row)
    for each in found:
        each.sort(key=position_of)
    return found


async def read(session: Session, stretch: PositionRange, rows: int) -> list[ClaimedEvent]:
    topic, key, first, last = stretch
    return claimed_events(await session.fetch("read_chunk", topic, key, first - 1, last, rows))


def position_of(row: ClaimedEvent) -> int:
    position = row["position"]
    assert position is not None  # noqa: S101 - it is lined up
    return position


async def measure(
    session: Session,
    topic: str,
    line: OpenLine,
    period: tuple[datetime, datetime] | None,
    most: int | None,
) -> tuple[int, int]:
    """The size and last position of the chunk that begins with a line's head."""
    row = await session.one(
        "measure_chunk", topic, line.key, line.position, *(period or (None, None)), most
    )
    return row["size"], row["last"]


def _pieces(stretch: PositionRange) -> Iterator[PositionRange]:
    """Cut a stretch into pieces of one statement each."""
    for first in range(stretch.first, stretch.last + 1, _STRETCH_POSITIONS):
        yield stretch._replace(first=first, last=min(first + _STRETCH_POSITIONS - 1, stretch.last))


async def types_in(session: Session, stretch: PositionRange, types: Sequence[str]) -> list[str]:
    found: list[str] = []
    for piece in _pieces(stretch):
        wanted = [type_ for type_ in types if type_ not in found]
        if not wanted:
            break
        found += [row[0] for row in await session.fetch("types_in_chunk", *piece, wanted)]
    return found


async def common_in(session: Session, stretch: PositionRange, first: ClaimedEvent) -> Common:
    common = Common(first["correlation_id"], first["tenant"])
    for piece in _pieces(stretch):
        if common == (None, None):
            break
        row = await session.one("common_in_chunk", *piece, *common)
        common = Common(*row)
    return common


async def settle(
    session: Session,
    stretch: PositionRange,
    seconds: float,
    worker: UUID,
    place_of: Callable[[str | None], str | None],
) -> list[tuple[str, str | None, int]]:
    """Returns counts by type and tenant; place_of maps tenants to names, so counts stay few."""
    found: Counter[tuple[str, str | None]] = Counter()
    for piece in _pieces(stretch):
        for row in await session.fetch("settle_chunk", *piece, seconds, worker):
            found[row["type"], place_of(row["tenant"])] += row["rows"]
    return [(type_, tenant, rows) for (type_, tenant), rows in found.items()]


async def fail(
    session: Session,
    stretch: PositionRange,
    error: str | None,
    fingerprint: str | None,
    crashes: int = 0,
) -> None:
    for piece in _pieces(stretch):
        await session.execute("fail_chunk", *piece, error, fingerprint, crashes)


async def make_due(session: Session, stretch: PositionRange) -> None:
    """Make the line due whichever event of the stretch becomes its head."""
    for piece in _pieces(stretch):
        await session.execute("make_chunk_due", *piece)


async def release_to_lanes(session: Session, stretch: PositionRange) -> None:
    for piece in _pieces(stretch):
        await session.execute("release_chunk_to_lanes", *piece)


async def oldest_arrival(
    session: Session, bucket: Bucket, after: int, bound: int
) -> tuple[datetime, datetime] | None:
    """When the first arrival after a cursor was written, and the database's time now."""
    row = await session.fetchrow("oldest_arrival", *bucket, after, bound)
    return None if row is None else (row["created_at"], row["now"])


async def newest(session: Session) -> int:
    """The largest event id that the sequence has given out."""
    return int(await session.fetchval("newest_event"))


async def waiting(session: Session, topic: str, limit: int) -> tuple[int, list[dict[str, Any]]]:
    """The number of a topic's arrivals, and its waiting chunks as JSON values."""
    rows = await session.fetch("list_chunks", topic, limit, NEVER)
    found = [dict(row) for row in rows]
    arrived = found[0]["arrived"]
    return arrived, [
        {name: value for name, value in row.items() if name != "arrived"}
        for row in found
        if row["key"] is not None
    ]


async def flush(session: Session, topic: str, key: str | None, most: int) -> list[str]:
    rows = await session.fetch("flush_chunks", topic, key, most)
    return [row[0] for row in rows]


async def count(session: Session, topic: str, key: str | None, most: int) -> int:
    return int(await session.fetchval("count_chunks", topic, key, most))


async def release_topic_to_lanes(session: Session, topic: str, rows: int, grace: timedelta) -> int:
    """Let a page of a topic's events, which no worker serves, run alone; returns their number."""
    tag = await session.execute("release_topic_to_lanes", topic, rows, grace)
    return int(tag.split()[-1])
