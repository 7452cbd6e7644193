"""The tables statement_*: the sources of the daily statement, and the statement itself.

Promises that a partition is counted exactly if its census is, in one transaction; that sums are
read in one snapshot; and that the first 1,000 names of sources are counted separately. Known limit:
the first count reads all of history, later counts only the days since then.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from inboxd.model import daily_statement as names
from inboxd.model.daily_statement import (
    FATES,
    OTHER,
    Fates,
    LineKey,
    StatementFinding,
    StatementLine,
    fate_of,
)
from inboxd.store.census import Stretch, UncountedDay
from inboxd.store.connections import Row
from inboxd.store.session import Session

MOST_SOURCES = 1_000
_PAGE_ROWS = 20_000
# Findings that are shown at most.
_MOST_SHOWN = 1_000


class StrayKey(NamedTuple):
    """Where rows lack their counterpart; what: the name of the finding."""

    day: date
    source: str
    what: str


@dataclass(slots=True)
class StrayCount:
    rows: int = 0
    example: UUID | None = None

    def add(self, rows: int, example: UUID | None) -> None:
        self.rows += rows
        self.example = self.example or example


@dataclass(slots=True)
class EventsOfDay:
    settled: Counter[tuple[date, str, str]] = field(default_factory=Counter)
    strays: dict[StrayKey, StrayCount] = field(default_factory=dict)


@dataclass(slots=True)
class ReceiptsOfDay:
    """Receipts of a partition by source. is_checked: whether their events were searched."""

    is_checked: bool
    found: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    strays: dict[str, StrayCount] = field(default_factory=dict)


# ----------------------------------------------------------------------------------- counting


async def to_count_again(session: Session, believed: timedelta, most: int) -> list[UncountedDay]:
    """Partitions without a count by source, changed after it, or with one older than `believed`."""
    rows = await session.fetch("partitions_to_count_again", believed, most)
    return [UncountedDay(**row) for row in rows]


async def count_events(
    session: Session, day: UncountedDay, where: Stretch, found: EventsOfDay
) -> None:
    given = (day.low, day.high, (where.first, 0), (where.end, 0))
    for written, source, status, rows in await session.fetch("count_sources", *given):
        found.settled[written, source, status] += rows
    for written, source, rows, example in await session.fetch("events_without_receipt", *given):
        key = StrayKey(written, source, names.EVENTS_WITHOUT_RECEIPT)
        found.strays.setdefault(key, StrayCount()).add(rows, example)


async def begin_receipts(session: Session, day: UncountedDay) -> ReceiptsOfDay:
    """An empty count; it searches the receipts' events only if age has removed none of them."""
    return ReceiptsOfDay(await session.fetchval("are_events_kept", day.low))


async def count_receipts(
    session: Session, day: UncountedDay, where: Stretch, found: ReceiptsOfDay
) -> None:
    given = (day.low, day.high, (where.first, 0), (where.end, 0), found.is_checked)
    for source, rows, duplicates, strays, example in await session.fetch("count_receipts", *given):
        found.found[source] += rows
        found.duplicates[source] += duplicates
        if strays:
            found.strays.setdefault(source, StrayCount()).add(strays, example)


async def keep_events(session: Session, day: UncountedDay, found: EventsOfDay) -> None:
    known = await admit(session, {source for _, source, _ in found.settled})
    settled: Counter[tuple[date, str, str]] = Counter()
    for (written, source, status), rows in found.settled.items():
        settled[written, _named(source, known), status] += rows
    keys = sorted(settled)
    await session.execute(
        "keep_settled", day.part, *_columns(keys, 3), [settled[key] for key in keys]
    )
    await _keep_strays(session, day, found.strays, known)


async def keep_receipts(session: Session, day: UncountedDay, found: ReceiptsOfDay) -> None:
    known = await admit(session, set(found.found))
    of_day, again = Counter[str](), Counter[str]()
    for source, rows in found.found.items():
        of_day[_named(source, known)] += rows
        again[_named(source, known)] += found.duplicates[source]
    sources = sorted(of_day)
    await session.execute(
        "keep_receipt_counts",
        day.low.date(),
        sources,
        [of_day[source] for source in sources],
        [again[source] for source in sources],
    )
    if found.is_checked:
        what = names.RECEIPTS_WITHOUT_EVENTS
        strays = {StrayKey(day.low.date(), s, what): each for s, each in found.strays.items()}
        await _keep_strays(session, day, strays, known)


async def _keep_strays(
    session: Session,
    day: UncountedDay,
    found: Mapping[StrayKey, StrayCount],
    known: Collection[str],
) -> None:
    strays: dict[StrayKey, StrayCount] = {}
    for key, each in found.items():
        named = key._replace(source=_named(key.source, known))
        strays.setdefault(named, StrayCount()).add(each.rows, each.example)
    await session.execute(
        "keep_strays",
        day.part,
        *_columns(list(strays), 3),
        [each.rows for each in strays.values()],
        [each.example for each in strays.values()],
    )


async def keep_duplicates(session: Session, repeats: Sequence[tuple[float, str]]) -> None:
    """Count duplicates, given as (seconds ago, source)."""
    if repeats:
        await session.execute("keep_duplicates", *_columns(repeats, 2))


async def admit(session: Session, sources: Collection[str]) -> set[str]:
    """Count these sources separately while there is room; returns all such sources."""
    await session.execute("admit_sources", sorted(sources), MOST_SOURCES)
    return {row["source"] for row in await session.fetch("list_sources_apart")}


def _named(source: str, known: Collection[str]) -> str:
    return source if source in known else OTHER


# ------------------------------------------------------------------------------------- making


@dataclass(frozen=True, slots=True)
class StatementDue:
    now: datetime
    today: date
    is_counted: bool
    closable: list[date]
    closed: list[date]
    checked_at: datetime | None
    counted_at: datetime | None


class LastCheck(NamedTuple):
    """When and in which database the last check was made; and the current database."""

    checked_at: datetime | None
    was: str | None
    was_timeline: int | None
    database: str
    timeline: int


async def note_days(session: Session) -> None:
    await session.execute("note_days")


async def due(session: Session) -> StatementDue:
    return StatementDue(**await session.one("statement_due"))


async def open_events(session: Session) -> Counter[tuple[date, str, str]]:
    """Unsettled events by day, source, and dead or open; read in pages, in one snapshot."""
    found: Counter[tuple[date, str, str]] = Counter()
    last = 0
    while rows := await session.fetch("open_of_days", last, _PAGE_ROWS):
        last = rows[0]["last"]
        for _, day, source, status, number in rows:
            found[day, source, status] += number
    return found


@dataclass(slots=True)
class Ledger:
    fates: Fates
    counted: dict[LineKey, int]
    moves: Counter[LineKey]
    duplicates: Counter[LineKey]


async def ledger(
    session: Session, there: Mapping[tuple[date, str, str], int], uncounted: Sequence[str]
) -> Ledger:
    """All written counts, plus `there`: unsettled events, and events of uncounted partitions."""
    raw: dict[str, list[Row]] = {
        name: await session.fetch(name)
        for name in ("trimmed_of_days", "moves_of_days", "duplicates_of_days", "counted_of_days")
    }
    sources = {source for _, source, _ in there}
    for name in ("trimmed_of_days", "moves_of_days", "duplicates_of_days"):
        sources |= {row["source"] for row in raw[name]}
    known = await admit(session, sources)
    fates: Fates = {}

    def add(day: date, source: str, status: str, rows: int) -> None:
        fates.setdefault(LineKey(day, source), Counter())[fate_of(status)] += rows

    for day, source, status, rows in await session.fetch("settled_of_days", uncounted):
        add(day, source, status, rows)
    for day, source, status, rows in raw["trimmed_of_days"]:
        add(day, _named(source, known), status, rows)
    for (day, source, status), rows in there.items():
        add(day, _named(source, known), status, rows)
    counted = {LineKey(day, source): rows for day, source, rows in raw["counted_of_days"]}
    moves, duplicates = (
        _by_key(raw[name], known) for name in ("moves_of_days", "duplicates_of_days")
    )
    return Ledger(fates, counted, moves, duplicates)


def _by_key(rows: Iterable[Row], known: Collection[str]) -> Counter[LineKey]:
    found: Counter[LineKey] = Counter()
    for day, source, number in rows:
        found[LineKey(day, _named(source, known))] += number
    return found


async def write_lines(
    session: Session, closing: Sequence[date], lines: Mapping[LineKey, StatementLine]
) -> None:
    values = lines.values()
    await session.execute(
        "write_lines",
        list(closing),
        *_columns(list(lines), 2),
        [each.counted for each in values],
        [each.received for each in values],
        [each.duplicates for each in values],
        *([each.fates[fate] for each in values] for fate in FATES),
    )


async def witnesses(session: Session, today: date, last: LastCheck) -> list[StatementFinding]:
    """Contradictions from receipts, partitions, spools and positions of brokers."""
    found = [_stray(row) for row in await session.fetch("strays_of_days")]
    for row in await session.fetch("missing_receipts"):
        told = f"of {row['most']:,} receipts are missing"
        found.append(
            StatementFinding(row["day"], row["source"], names.RECEIPTS_MISSING, row["rows"], told)
        )
    for row in await session.fetch("partitions_gone"):
        told = f"were in the partition {row['part']}, which neither retention nor drop removed"
        found.append(StatementFinding(row["day"], "", names.PARTITION_GONE, row["rows"], told))
    for row in await session.fetch("spools_left"):
        if row["is_gone"]:
            told = f"webhooks wait in the spool of {row['host']}, which no receiver drains"
            found += [
                StatementFinding(today, source, names.SPOOL_LEFT, 0, told)
                for source in row["spooled"]
            ]
    if last.checked_at is not None:
        for row in await session.fetch("positions_gone_back", last.checked_at):
            now = "none" if row["position"] is None else row["position"]
            told = f"the stored position of {row['stream']} went back from {row['was']} to {now}"
            found.append(StatementFinding(today, row["source"], names.POSITION_GONE_BACK, 0, told))
    return list({each[:3]: each for each in found}.values())


def _stray(row: Row) -> StatementFinding:
    if row["what"] == names.EVENTS_WITHOUT_RECEIPT:
        told = f"came in webhooks whose receipts are missing, such as event {row['example']}"
    else:
        told = f"have none of the events that they brought, such as receipt {row['example']}"
    return StatementFinding(row["day"], row["source"], row["what"], row["rows"], told)


async def write_findings(session: Session, found: Sequence[StatementFinding]) -> None:
    """Replace the stored findings by these, except those about a single moment (`ONCE`)."""
    await session.execute("write_findings", *_columns(found, 5), list(names.ONCE))


async def last_check(session: Session) -> LastCheck:
    return LastCheck(*await session.one("last_check"))


async def note_check(session: Session, now: datetime, last: LastCheck) -> None:
    """Record the check, and the positions of streams at that time."""
    await session.execute("keep_positions")
    await session.execute("note_check", now, last.database, last.timeline)


async def purge(session: Session, age: timedelta) -> int:
    """Remove the oldest statement if it is older than `age`; returns the number of removed ones."""
    return int(await session.fetchval("purge_statements", age))


# ------------------------------------------------------------------------------------ reading


class FindingsCount(NamedTuple):
    """Findings not yet accepted, by name; age: seconds since the newest day with a statement."""

    open: dict[str, int]
    age: float | None


async def count_findings(session: Session) -> FindingsCount:
    rows = await session.fetch("count_findings")
    open_ = {row["what"]: row["count"] for row in rows if row["what"] is not None}
    return FindingsCount(open_, rows[0]["age"] if rows else None)


async def shown(session: Session, day: date | None, source: str | None) -> list[Row]:
    return await session.fetch("show_statement", day, source)


async def beside(session: Session, day: date) -> Row:
    return await session.one("days_beside", day)


async def findings(session: Session, day: date | None, source: str | None) -> list[Row]:
    """The findings of a day, and those of other days that no operator has accepted."""
    return await session.fetch("show_findings", day, source, _MOST_SHOWN)


async def spools(session: Session) -> list[Row]:
    return await session.fetch("spools_left")


async def accept(session: Session, day: date, source: str | None, actor: str) -> int:
    return int(await session.fetchval("accept_findings", day, source, actor))


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
