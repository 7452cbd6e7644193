"""The census: the number of settled rows of each finished day, counted once.

A finished day gets no more rows, but may change: a type is trimmed, rows are erased, a partition is
attached again. Each of these calls the database's `begin_census` (here `begin`) in its own
transaction; then the leader counts that day again, and `end` rejects a count that began earlier. So
counts are exact whatever crashes. A day to which an open transaction has written is not finished;
counts of days in the future, from a clock that was set back, are ignored. A count has its day's
lowest id, by which lists leave days out; only a partition that is attached again loses it. Known
limit: only the largest types and tenants of a day are counted separately.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from inboxd.model.lifecycle import Status
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Table pages that one statement counts: 32 MB.
_STRETCH_PAGES = 4_096
_LAST_PAGE = 2**32 - 1
_NO_ID = 2**63 - 1
# The largest types and tenants of a day have counts of their own; while a day is counted, at most
# _REMEMBERED_NAMES of each are kept.
MOST_TYPES = 1_000
MOST_TENANTS = 1_000
_REMEMBERED_NAMES = 100_000
# A dead letter is settled when it is sent again as a new row.
SETTLED_STATUSES = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.DISMISSED)


@dataclass(frozen=True, slots=True)
class UncountedDay:
    parent: str
    part: str
    low: datetime
    high: datetime
    over: bool
    pages: int

    @property
    def table(self) -> HotTable:
        return "events" if self.parent == "events_history" else "commands"


class CountBegun(NamedTuple):
    """written: the partition's counters of inserts, updates, deletes; `at` identifies the count."""

    at: datetime
    written: int
    bytes: int


class Stretch(NamedTuple):
    """Table pages of a partition: from `first` to `end`, `end` excluded."""

    first: int
    end: int


class TypeStatus(NamedTuple):
    type: str
    status: str


@dataclass(slots=True)
class DayCount:
    """`*_left`: rows of names that are not counted. low_id: no row has a lower id."""

    statuses: Counter[Status] = field(default_factory=Counter)
    types: dict[str, Counter[TypeStatus]] = field(default_factory=dict)
    tenants: dict[str, Counter[TypeStatus]] = field(default_factory=dict)
    types_left: int = 0
    tenants_left: int = 0
    low_id: int = _NO_ID

    def add(
        self, type_: str, status: str, tenant: str | None, rows: int, low_id: int = _NO_ID
    ) -> None:
        """Add rows to the counts; new names beyond the memory limit count as left."""
        self.low_id = min(self.low_id, low_id)
        self.statuses[Status(status)] += rows
        key = TypeStatus(type_, status)
        self.types_left += _add(self.types, type_, key, rows)
        if tenant is not None:
            self.tenants_left += _add(self.tenants, tenant, key, rows)

    def shorten(self, types: int = MOST_TYPES, tenants: int = MOST_TENANTS) -> None:
        self.types_left += _shorten(self.types, types)
        self.tenants_left += _shorten(self.tenants, tenants)


def _add(found: dict[str, Counter[TypeStatus]], name: str, key: TypeStatus, rows: int) -> int:
    """Add rows to a name's count; returns the rows that were not added."""
    if name not in found:
        if len(found) >= _REMEMBERED_NAMES:
            return rows
        found[name] = Counter()
    found[name][key] += rows
    return 0


def _shorten(found: dict[str, Counter[TypeStatus]], most: int) -> int:
    by_size = sorted(found, key=lambda name: (-found[name].total(), name))
    return sum(found.pop(name).total() for name in by_size[most:])


class SettledRows(NamedTuple):
    """Settled rows by status; untold: rows of uncounted names, some of which may match."""

    statuses: Counter[Status]
    untold: int


# ----------------------------------------------------------------------------------- counting


async def uncounted(session: Session) -> list[UncountedDay]:
    """Partitions without a census, oldest first; today's is among them, not `over`."""
    return [UncountedDay(**row) for row in await session.fetch("uncounted_partitions")]


async def begin(session: Session, part: str, parent: str) -> CountBegun:
    """Discard a partition's census and any running count; returns what `end` needs."""
    return CountBegun(*await session.one("begin_census", part, parent))


def stretches(day: UncountedDay) -> Iterator[Stretch]:
    for first in range(0, max(1, day.pages), _STRETCH_PAGES):
        # The last stretch has no bound: the partition may have grown.
        end = first + _STRETCH_PAGES if first + _STRETCH_PAGES < day.pages else _LAST_PAGE
        yield Stretch(first, end)


async def count(session: Session, day: UncountedDay, where: Stretch, found: DayCount) -> None:
    table, bounds = day.table, ((where.first, 0), (where.end, 0))
    for row in await session.fetch(f"count_stretch_{table}", day.low, day.high, *bounds):
        found.add(*row)


async def end(session: Session, day: UncountedDay, began: CountBegun, found: DayCount) -> bool:
    """Write a day's count; False: another count began meanwhile, and this one is discarded."""
    found.shorten()
    types = [(*key, rows) for each in found.types.values() for key, rows in each.items()]
    tenants = [
        (tenant, *key, rows) for tenant, each in found.tenants.items() for key, rows in each.items()
    ]
    written = await session.fetchval(
        "end_census",
        day.part,
        began.at,
        *(found.statuses[status] for status in SETTLED_STATUSES),
        found.types_left,
        found.tenants_left,
        *_columns(types, 3),
        *_columns(tenants, 4),
        began.written,
        began.bytes,
        found.low_id,
    )
    return written is not None


def _columns(rows: Iterable[tuple[object, ...]], width: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


async def forget(session: Session) -> None:
    await session.execute("forget_census")


# ------------------------------------------------------------------------------------ reading


async def total(
    session: Session, table: HotTable, type_: str | None, tenant: str | None
) -> SettledRows:
    parent = f"{table}_history"
    if tenant is not None:
        row = await session.one("total_census_tenant", parent, tenant, type_)
    elif type_ is not None:
        row = await session.one("total_census_type", parent, type_)
    else:
        row = await session.one("total_census", parent)
    return SettledRows(_statuses(row), row["untold"])


async def look(
    session: Session, day: UncountedDay, type_: str | None, tenant: str | None, most: int
) -> tuple[Counter[Status], int]:
    """Count a day without a census, up to `most` rows; also returns how many rows were read."""
    table = day.table
    row = await session.one(f"count_day_{table}", day.low, day.high, type_, tenant, most)
    return _statuses(row), row["looked"]


def _statuses(row: Row) -> Counter[Status]:
    return Counter({status: row[status] for status in SETTLED_STATUSES})
