"""The census: how many settled rows a finished day has, counted once.

Owns the tables `census*`. A day of history gets no more rows once it is over; what it has may still
change: a type is trimmed, rows are erased, a partition is attached again. Each of these calls the
database's `begin_census` (here `begin`) in its own transaction, and the leader counts that day
again: a count that began before is thrown away (`end`). Late rows whose bodies are copied forward
move within their day, which throws away a count that goes on, and no other. A day to which an open
transaction has written is not over, and what was counted in the future, by a clock that was set
back since, counts for nothing and is forgotten. So what is counted is exact, whoever dies or
interferes. Known limit: of a day the largest types and tenants are told apart, and what is left is
known as a number.
*See:* `inboxd.maintenance.census`, which counts; `inboxd.operations.totals`, which adds up.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from inboxd.model.lifecycle import Status
from inboxd.store.connections import Connection, Row, one_row
from inboxd.store.statements import Statements
from inboxd.store.wakeups import HotTable

# Pages of a partition that one statement counts, 32 MB.
_STRETCH = 4_096
_LAST_PAGE = 2**32 - 1
# Of a day, the types and tenants that are told apart; and what is remembered while it is counted.
MOST_TYPES = 1_000
MOST_TENANTS = 1_000
_REMEMBERED = 100_000
# A dead letter is settled when it is sent again as a new row.
SETTLED_STATUSES = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.DISMISSED)


@dataclass(frozen=True, slots=True)
class UncountedDay:
    """A partition that no census has; see `uncounted_partitions.sql`."""

    parent: str
    part: str
    low: datetime
    high: datetime
    over: bool
    pages: int

    @property
    def table(self) -> HotTable:
        """Whose history it is."""
        return "events" if self.parent == "events_history" else "commands"


class CountBegun(NamedTuple):
    """When a count began, by which it is known; and how the partition was then.

    written: rows that the server had seen to come and go. bytes: its size.
    """

    at: datetime
    written: int
    bytes: int


class Stretch(NamedTuple):
    """Pages of a partition, from the first on, until the end."""

    first: int
    end: int


class TypeStatus(NamedTuple):
    """What is counted together."""

    type: str
    status: str


@dataclass(slots=True)
class DayCount:
    """What a day has: by status, by type, and by tenant."""

    statuses: Counter[Status] = field(default_factory=Counter)
    types: dict[str, Counter[TypeStatus]] = field(default_factory=dict)
    tenants: dict[str, Counter[TypeStatus]] = field(default_factory=dict)
    types_left: int = 0
    tenants_left: int = 0

    def add(self, type_: str, status: str, tenant: str | None, rows: int) -> None:
        """Count some rows; a type or tenant that comes when too many are remembered is left."""
        self.statuses[Status(status)] += rows
        key = TypeStatus(type_, status)
        self.types_left += _add(self.types, type_, key, rows)
        if tenant is not None:
            self.tenants_left += _add(self.tenants, tenant, key, rows)

    def shorten(self, types: int = MOST_TYPES, tenants: int = MOST_TENANTS) -> None:
        """Leave all but the largest."""
        self.types_left += _shorten(self.types, types)
        self.tenants_left += _shorten(self.tenants, tenants)


def _add(found: dict[str, Counter[TypeStatus]], name: str, key: TypeStatus, rows: int) -> int:
    """Count rows of a name; how many of them are left."""
    if name not in found:
        if len(found) >= _REMEMBERED:
            return rows
        found[name] = Counter()
    found[name][key] += rows
    return 0


def _shorten(found: dict[str, Counter[TypeStatus]], most: int) -> int:
    """Forget all but the largest; how many rows those had."""
    by_size = sorted(found, key=lambda name: (-found[name].total(), name))
    return sum(found.pop(name).total() for name in by_size[most:])


class SettledRows(NamedTuple):
    """How many rows are settled, by status; untold: among those there may be more."""

    statuses: Counter[Status]
    untold: int


# ----------------------------------------------------------------------------------- counting


async def uncounted(connection: Connection, sql: Statements) -> list[UncountedDay]:
    """Days that no census has, the oldest first; today's among them, which is not over."""
    return [UncountedDay(**row) for row in await connection.fetch(sql["uncounted_partitions"])]


async def begin(connection: Connection, sql: Statements, part: str, parent: str) -> CountBegun:
    """Forget what was counted of a partition, and any count that goes on; for `end`."""
    return CountBegun(*await one_row(connection, sql["begin_census"], part, parent))


def stretches(day: UncountedDay) -> Iterator[Stretch]:
    """What is to be counted of a day, one after the other."""
    for first in range(0, max(1, day.pages), _STRETCH):
        # The last one reaches as far as pages can: the partition may have grown.
        end = first + _STRETCH if first + _STRETCH < day.pages else _LAST_PAGE
        yield Stretch(first, end)


async def count(
    connection: Connection, sql: Statements, day: UncountedDay, where: Stretch, found: DayCount
) -> None:
    """Add what a stretch of a day has."""
    table = day.table
    statement = sql[f"count_stretch_{table}"]
    for row in await connection.fetch(
        statement, day.low, day.high, (where.first, 0), (where.end, 0)
    ):
        found.add(*row)


async def end(
    connection: Connection, sql: Statements, day: UncountedDay, began: CountBegun, found: DayCount
) -> bool:
    """Write it down; False: it was begun again meanwhile, and counts for nothing."""
    found.shorten()
    types = [(*key, rows) for each in found.types.values() for key, rows in each.items()]
    tenants = [
        (tenant, *key, rows) for tenant, each in found.tenants.items() for key, rows in each.items()
    ]
    written = await connection.fetchval(
        sql["end_census"],
        day.part,
        began.at,
        *(found.statuses[status] for status in SETTLED_STATUSES),
        found.types_left,
        found.tenants_left,
        *_columns(types, 3),
        *_columns(tenants, 4),
        began.written,
        began.bytes,
    )
    return written is not None


def _columns(rows: Iterable[tuple[object, ...]], width: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


async def forget(connection: Connection, sql: Statements) -> None:
    """Forget partitions that are not there any more, and what was counted in the future."""
    await connection.execute(sql["forget_census"])


# ------------------------------------------------------------------------------------ reading


async def total(
    connection: Connection, sql: Statements, table: HotTable, type_: str | None, tenant: str | None
) -> SettledRows:
    """What all counted days have, of a type and a tenant, or of any."""
    parent = f"{table}_history"
    if tenant is not None:
        row = await one_row(connection, sql["total_census_tenant"], parent, tenant, type_)
    elif type_ is not None:
        row = await one_row(connection, sql["total_census_type"], parent, type_)
    else:
        row = await one_row(connection, sql["total_census"], parent)
    return SettledRows(_statuses(row), row["untold"])


async def look(
    connection: Connection,
    sql: Statements,
    day: UncountedDay,
    type_: str | None,
    tenant: str | None,
    most: int,
) -> tuple[Counter[Status], int]:
    """What a day has that no census has, as far as so many rows; and how many were looked at."""
    table = day.table
    statement = sql[f"count_day_{table}"]
    row = await one_row(connection, statement, day.low, day.high, type_, tenant, most)
    return _statuses(row), row["looked"]


def _statuses(row: Row) -> Counter[Status]:
    return Counter({status: row[status] for status in SETTLED_STATUSES})
