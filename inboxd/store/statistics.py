"""The statistics: written by workers, rolled up by the leader, read by whoever shows them.

Owns the tables `stats_*`. Workers append what they counted to `stats_written`; the leader adds it
to minutes, hours and days, and removes it, in one transaction: so each row counts once, whoever
dies, however late it comes, and whatever is purged. Readers add what is not rolled up yet. Promises
that reading costs what the span has, whatever lies before it; that a span is read as of one moment;
and that days, hours and minutes are those of UTC. Known limits: what a worker counted since it last
wrote is lost when it is killed, and counts twice when the connection is lost in the middle of a
commit; tenants have hours and days alone, and those without a place are `(other)`.
*See:* `maintenance.statistics`, which writes and rolls up; `model.durations`, for percentiles;
docs/adr/0030-statistics-rolled-up.md.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Literal, cast

from inboxd.model.durations import Durations
from inboxd.store.connections import Connection, Row
from inboxd.store.statements import Statements
from inboxd.telemetry.tally import Statistic, StatisticKey

Resolution = Literal["minutes", "hours", "days"]
# What is told apart; the rest is added up.
Dimension = Literal["at", "kind", "lane", "type"]
RESOLUTIONS: tuple[Resolution, ...] = ("minutes", "hours", "days")

# What is counted beside executions.
_NO_EXECUTIONS = ("ignored", "duplicate")
# A span that goes on: a clock that was set back leaves minutes that are still to come.
_EVER = datetime(9999, 1, 1, tzinfo=UTC)
# A span that ends now begins at a minute, a whole hour or a whole day, as far back as this.
_BY_MINUTE = timedelta(days=2)
_BY_HOUR = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class FigureFilter:
    """Of what statistics are read; None: of all. lane: a topic, or a queue."""

    kind: str | None = None
    lane: str | None = None
    type: str | None = None
    tenant: str | None = None


EVERYTHING = FigureFilter()


@dataclass(slots=True)
class Figures:
    """What was counted of one thing in one span; `at` is where that begins.

    executions: by outcome and what they followed. run, wait, completion: how long handlers took,
    how long rows had been due, and how long after its creation a row succeeded.
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
        """How many ended so; of those after a retry or a replay, if it is named."""
        found = self.executions.items()
        return sum(n for (is_, what), n in found if is_ == name and (not after or what in after))

    @property
    def succeeded(self) -> int:
        """Rows that were completed: each once."""
        return self.outcome("succeeded")

    @property
    def executed(self) -> int:
        """Executions, whatever their outcome."""
        return sum(n for (name, _), n in self.executions.items() if name not in _NO_EXECUTIONS)

    @property
    def attempts(self) -> int:
        """Executions that spent an attempt."""
        return self.executed - self.outcome("deferred")

    @property
    def reprocessed(self) -> int:
        """Those of them that followed a retry or a replay."""
        found = self.executions.items()
        return sum(n for (name, after), n in found if after and name != "deferred")

    def add(self, other: "Figures") -> None:
        """Add what was counted elsewhere."""
        self.executions.update(other.executions)
        self.run.add(other.run)
        self.wait.add(other.wait)
        self.completion.add(other.completion)


@dataclass(frozen=True, slots=True)
class Lately:
    """What was counted from `since` until `until`, which is when it was read."""

    since: datetime
    until: datetime
    figures: list[Figures]


# ------------------------------------------------------------------------------------- writing


async def write(
    connection: Connection,
    sql: Statements,
    statistics: Sequence[Statistic],
    clock: Callable[[], float] = monotonic,
) -> None:
    """Write down what was counted, if anything; `clock` is the tally's."""
    if not statistics:
        return
    now = clock()
    rows = (_row(each, now) for each in statistics)
    columns = [list(column) for column in zip(*rows, strict=True)]
    await connection.execute(sql["write_statistics"], *columns)


def _row(statistic: Statistic, now: float) -> tuple[object, ...]:
    key, rows, *times = statistic
    return (max(0.0, now - key.counted_at), *key[1:], rows, *(p for t in times for p in _parts(t)))


def _parts(durations: Durations | None) -> tuple[float | None, float | None, str | None]:
    """Total, maximum, and the histogram as PostgreSQL reads them."""
    if durations is None or not durations.histogram:
        return None, None, None
    counts = ",".join(map(str, durations.histogram))
    return durations.total, durations.maximum, f"{{{counts}}}"


async def write_events(
    connection: Connection,
    sql: Statements,
    outcome: Literal["ignored", "duplicate"],
    events: Iterable[tuple[str, str, float, int]],
) -> None:
    """Count events that nobody executed, in the transaction in which they ended.

    events: topic, type, seconds ago, how many.
    """
    now = monotonic()
    await write(
        connection,
        sql,
        [
            Statistic(StatisticKey(now - ago, "event", topic, type_, outcome, "", None), count)
            for topic, type_, ago, count in events
        ],
    )


async def admit_tenants(
    connection: Connection, sql: Statements, tenants: Collection[str], most: int
) -> set[str]:
    """Let these be counted by name as long as there is room for `most`; all that are."""
    await connection.execute(sql["admit_tenants"], sorted(tenants), most)
    return await _admitted(connection, sql)


async def is_counted(connection: Connection, sql: Statements, tenant: str) -> bool:
    """Whether a tenant is counted by name; else what is told of it is too little."""
    return tenant in await _admitted(connection, sql)


async def _admitted(connection: Connection, sql: Statements) -> set[str]:
    return {row["tenant"] for row in await connection.fetch(sql["list_tenants"])}


# ---------------------------------------------------------------------------------- rolling up


async def roll_up(
    connection: Connection, sql: Statements, rows: int, age: timedelta = timedelta(0)
) -> int:
    """Roll up the oldest of what was written down, within a transaction; how many rows.

    age: since the beginning of their minutes, at least.
    """
    ids = [row["id"] for row in await connection.fetch(sql["hold_written"], rows, age)]
    if ids:
        await connection.execute(sql["lock_series"])
        await connection.execute(sql["name_series"], ids)
        for resolution in RESOLUTIONS:
            await connection.execute(sql[f"roll_up_{resolution}"], ids)
        for span in ("hours", "days"):
            await connection.execute(sql[f"roll_up_tenant_{span}"], ids)
        await connection.execute(sql["remove_written"], ids)
    return len(ids)


async def take_over(connection: Connection, sql: Statements, rows: int) -> int:
    """Take over rows that older code has written; how many."""
    return int(await connection.fetchval(sql["take_over_stats"], rows))


# ------------------------------------------------------------------------------------- reading


async def read(
    connection: Connection,
    sql: Statements,
    resolution: Resolution,
    since: datetime,
    until: datetime = _EVER,
    *,
    apart: Sequence[Dimension] = ("at", "kind", "type"),
    of: FigureFilter = EVERYTHING,
) -> list[Figures]:
    """What was counted in a span, in the order of `at`, kind, lane and type.

    `since` is in it and `until` is not: both whole minutes, hours or days of UTC. Raises ValueError
    for minutes of a tenant, which nobody counts.
    """
    given = (since, until, of.kind, of.lane, of.type, list(apart))
    if of.tenant is None:
        rows = await connection.fetch(sql[f"read_{resolution}"], *given)
    elif resolution == "minutes":
        raise ValueError("tenants are counted by hours and days: ask for one of those")
    else:
        rows = await connection.fetch(sql[f"read_tenant_{resolution}"], of.tenant, *given)
    return list(_figures(rows))


async def executions(
    connection: Connection,
    sql: Statements,
    resolution: Resolution,
    since: datetime,
    *,
    lanes: Collection[tuple[str, str]] = (),
    types: Collection[tuple[str, str]] = (),
) -> list[Row]:
    """How many executions there were since then, step by step: see `executions_{resolution}.sql`.

    lanes, types: those that are told apart, each a kind and a name.
    """
    named = [[each[n] for each in found] for found in (lanes, types) for n in (0, 1)]
    return await connection.fetch(sql[f"executions_{resolution}"], since, _EVER, *named)


async def database_time(connection: Connection, sql: Statements) -> datetime:
    """The time of the database, by which spans are told."""
    return cast("datetime", await connection.fetchval(sql["database_time"]))


async def lately(
    connection: Connection,
    sql: Statements,
    back: timedelta,
    *,
    apart: Sequence[Literal["kind", "lane", "type"]] = ("kind", "type"),
    of: FigureFilter = EVERYTHING,
) -> Lately:
    """What was counted from `back` ago until now, from minutes, hours and days.

    It begins with a whole minute; beyond two days, and for a tenant, with a whole hour; beyond two
    weeks with a whole day.
    """
    until = await database_time(connection, sql)
    since, spans = _spans(until, back, by_minute=of.tenant is None)
    found: dict[tuple[str | None, ...], Figures] = {}
    for resolution, begin, end in spans:
        for each in await read(connection, sql, resolution, begin, end, apart=apart, of=of):
            key = (each.kind, each.lane, each.type)
            if key in found:
                found[key].add(each)
            else:
                found[key] = each
    return Lately(since, until, list(found.values()))


def _spans(
    now: datetime, back: timedelta, *, by_minute: bool
) -> tuple[datetime, list[tuple[Resolution, datetime, datetime]]]:
    """Where it begins, and the spans that make it up, each of the longest units that fit."""
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
    """One of each group of rows that differ in their outcomes alone."""
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
    """The maximum is kept with six digits."""
    maximum = float(f"{row[f'{name}_maximum'] or 0.0:.6g}")
    return Durations(row[f"{name}_total"] or 0.0, maximum, row[f"{name}_histogram"] or ())
