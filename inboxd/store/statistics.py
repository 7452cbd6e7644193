"""The statistics: written by workers, rolled up by the leader, read for charts and metrics.

Workers append counts to `stats_written`; the leader moves them into minutes, hours and days in one
transaction: each row counts exactly once, even if a worker dies, a row comes late, or a table is
purged. Promises that reading costs as much as the span holds; that a span is read in one snapshot;
and that days, hours and minutes are those of UTC. Known limits: counts since a worker's last write
are lost if it is killed, and count twice if the connection is lost during a commit; tenants have
hours and days only; tenants without a place, and new names on a day that has `_SERIES` series,
count as `(other)` (docs/contributing/adr/0030-statistics-rolled-up.md).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Literal, cast

from inboxd.model.durations import Durations
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.telemetry.tally import Statistic, StatisticKey

Resolution = Literal["minutes", "hours", "days"]
# Dimensions that a reader keeps separate; the others are added up.
Dimension = Literal["at", "kind", "lane", "type"]
RESOLUTIONS: tuple[Resolution, ...] = ("minutes", "hours", "days")

# A day with this many series gives new topics, queues and types no series of their own.
_SERIES = 1_000
# Outcomes of rows that were not executed.
_NO_EXECUTIONS = ("ignored", "duplicate")
# Outcomes of rows that ended.
ENDED = ("succeeded", "failed", "cancelled")
# The end of an open span: a clock that was set back leaves minutes in the future.
_EVER = datetime(9999, 1, 1, tzinfo=UTC)
# A span begins at a whole minute, up to two days ago; at a whole hour, up to two weeks; else a day.
_BY_MINUTE = timedelta(days=2)
_BY_HOUR = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class FigureFilter:
    """The filter of statistics; None matches any. lane: a topic or a queue."""

    kind: str | None = None
    lane: str | None = None
    type: str | None = None
    tenant: str | None = None


EVERYTHING = FigureFilter()


@dataclass(slots=True)
class Figures:
    """executions: by outcome, and by what they followed ("", a retry or a replay).

    at: the start of the span. wait: the time from due to start. completion: from creation to
    success.
    """

    at: datetime | None
    kind: str | None
    lane: str | None
    type: str | None
    executions: Counter[tuple[str, str]] = field(default_factory=Counter)
    run: Durations = field(default_factory=Durations)
    wait: Durations = field(default_factory=Durations)
    completion: Durations = field(default_factory=Durations)

    def outcome(self, name: str, *after: str) -> int:
        found = self.executions.items()
        return sum(n for (is_, what), n in found if is_ == name and (not after or what in after))

    @property
    def succeeded(self) -> int:
        return self.outcome("succeeded")

    @property
    def executed(self) -> int:
        return sum(n for (name, _), n in self.executions.items() if name not in _NO_EXECUTIONS)

    @property
    def attempts(self) -> int:
        return self.executed - self.outcome("deferred")

    @property
    def reprocessed(self) -> int:
        found = self.executions.items()
        return sum(n for (name, after), n in found if after and name != "deferred")

    def add(self, other: "Figures") -> None:
        self.executions.update(other.executions)
        self.run.add(other.run)
        self.wait.add(other.wait)
        self.completion.add(other.completion)


@dataclass(frozen=True, slots=True)
class Lately:
    """The counts from `since` until `until`, the time of reading."""

    since: datetime
    until: datetime
    figures: list[Figures]


# ------------------------------------------------------------------------------------- writing


async def write(
    session: Session, statistics: Sequence[Statistic], clock: Callable[[], float] = monotonic
) -> None:
    """Write counts, if there are any; clock: the tally's clock."""
    if not statistics:
        return
    now = clock()
    rows = (_row(each, now) for each in statistics)
    columns = [list(column) for column in zip(*rows, strict=True)]
    await session.execute("write_statistics", *columns)


def _row(statistic: Statistic, now: float) -> tuple[object, ...]:
    key, rows, *times = statistic
    return (max(0.0, now - key.counted_at), *key[1:], rows, *(p for t in times for p in _parts(t)))


def _parts(durations: Durations | None) -> tuple[float | None, float | None, str | None]:
    """The total, the maximum, and the histogram as a PostgreSQL array."""
    if durations is None or not durations.histogram:
        return None, None, None
    counts = ",".join(map(str, durations.histogram))
    return durations.total, durations.maximum, f"{{{counts}}}"


async def write_events(
    session: Session,
    outcome: Literal["ignored", "duplicate"],
    events: Iterable[tuple[str, str, float, int]],
) -> None:
    """Needs the transaction in which they ended. events: topic, type, seconds ago, number."""
    now = monotonic()
    await write(
        session,
        [
            Statistic(StatisticKey(now - ago, "event", topic, type_, outcome, "", None), count)
            for topic, type_, ago, count in events
        ],
    )


async def admit_tenants(session: Session, tenants: Collection[str], most: int) -> set[str]:
    """Count these tenants by name while there is room for `most`; returns all such tenants."""
    await session.execute("admit_tenants", sorted(tenants), most)
    return await _admitted(session)


async def is_counted(session: Session, tenant: str) -> bool:
    """Whether a tenant is counted by name; if not, its counts are incomplete."""
    return tenant in await _admitted(session)


async def _admitted(session: Session) -> set[str]:
    return {row["tenant"] for row in await session.fetch("list_tenants")}


# ---------------------------------------------------------------------------------- rolling up


async def roll_up(session: Session, rows: int, age: timedelta = timedelta(0)) -> int:
    """Needs a transaction; returns the number of rows. age: the least since their minutes began."""
    ids = [row["id"] for row in await session.fetch("hold_written", rows, age)]
    if ids:
        await session.execute("lock_series")
        await session.execute("gather_rest", ids, _SERIES)
        await session.execute("name_series", ids)
        for resolution in RESOLUTIONS:
            await session.execute(f"roll_up_{resolution}", ids)
        for span in ("hours", "days"):
            await session.execute(f"roll_up_tenant_{span}", ids)
        await session.execute("remove_written", ids)
    return len(ids)


async def take_over(session: Session, rows: int) -> int:
    """Take over rows that older code has written; returns their number."""
    return int(await session.fetchval("take_over_stats", rows))


# ------------------------------------------------------------------------------------- reading


async def read(
    session: Session,
    resolution: Resolution,
    since: datetime,
    until: datetime = _EVER,
    *,
    apart: Sequence[Dimension] = ("at", "kind", "type"),
    of: FigureFilter = EVERYTHING,
) -> list[Figures]:
    """By `at`, kind, lane and type. `since` is included and `until` is not: both whole units.

    Raises ValueError for minutes of a tenant, which are not counted.
    """
    given = (since, until, of.kind, of.lane, of.type, list(apart))
    if of.tenant is None:
        rows = await session.fetch(f"read_{resolution}", *given)
    elif resolution == "minutes":
        raise ValueError("tenants are counted by hours and days: ask for one of those")
    else:
        rows = await session.fetch(f"read_tenant_{resolution}", of.tenant, *given)
    return list(_figures(rows))


async def executions(
    session: Session,
    resolution: Resolution,
    since: datetime,
    *,
    lanes: Collection[tuple[str, str]] = (),
    types: Collection[tuple[str, str]] = (),
) -> list[Row]:
    """lanes, types: those that are counted separately, each a kind and a name."""
    named = [[each[n] for each in found] for found in (lanes, types) for n in (0, 1)]
    return await session.fetch(f"executions_{resolution}", since, _EVER, *named)


async def database_time(session: Session) -> datetime:
    return cast("datetime", await session.fetchval("database_time"))


async def lately(
    session: Session,
    back: timedelta,
    *,
    apart: Sequence[Literal["kind", "lane", "type"]] = ("kind", "type"),
    of: FigureFilter = EVERYTHING,
) -> Lately:
    """Begins at a whole minute; beyond 2 days, or for a tenant, hour; beyond 2 weeks, day."""
    until = await database_time(session)
    since, spans = _spans(until, back, by_minute=of.tenant is None)
    found: dict[tuple[str | None, ...], Figures] = {}
    for resolution, begin, end in spans:
        for each in await read(session, resolution, begin, end, apart=apart, of=of):
            key = (each.kind, each.lane, each.type)
            if key in found:
                found[key].add(each)
            else:
                found[key] = each
    return Lately(since, until, list(found.values()))


def _spans(
    now: datetime, back: timedelta, *, by_minute: bool
) -> tuple[datetime, list[tuple[Resolution, datetime, datetime]]]:
    """Where the span begins, and its parts, each with the longest units that fit."""
    begin = (now - back).astimezone(UTC).replace(second=0, microsecond=0)
    if back > _BY_HOUR:
        begin = begin.replace(hour=0, minute=0)
    elif back > _BY_MINUTE or not by_minute:
        begin = begin.replace(minute=0)
    hour = begin + timedelta(minutes=-begin.minute % 60)
    day = hour + timedelta(hours=-hour.hour % 24) if back > _BY_MINUTE else _EVER
    edges: list[tuple[Resolution, datetime, datetime]] = [
        ("minutes", begin, hour),
        ("hours", hour, day),
        ("days", day, _EVER),
    ]
    return begin, [(name, since, until) for name, since, until in edges if since < until]


def _figures(rows: Iterable[Row]) -> Iterator[Figures]:
    current: Figures | None = None
    for row in rows:
        group = (row["at"], row["kind"], row["lane"], row["type"])
        if current is None or group != (current.at, current.kind, current.lane, current.type):
            if current is not None:
                yield current
            current = Figures(*group)
        current.executions[row["outcome"], row["after"]] += int(row["count"])
        for name in ("run", "wait", "completion"):
            getattr(current, name).add(_durations(row, name))
    if current is not None:
        yield current


def _durations(row: Row, name: str) -> Durations:
    """The durations of a row, with a maximum of six significant digits."""
    maximum = float(f"{row[f'{name}_maximum'] or 0.0:.6g}")
    return Durations(row[f"{name}_total"] or 0.0, maximum, row[f"{name}_histogram"] or ())
