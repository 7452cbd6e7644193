"""Erasure: pages of the hot tables, and stretches of the partitions of history.

Promises that each statement reads one stretch of one partition, and that an erasure can be
repeated. Known limit: history has no index by tenant or entity (docs/growth.md).
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_PAGE = 20_000  # hot rows per statement
_STRETCH = 4_096  # table pages of a partition per statement, 32 MB


@dataclass(frozen=True, slots=True)
class Subject:
    """The tenant or entity whose data is erased; None matches any."""

    tenant: str | None
    entity_type: str | None
    entity_id: str | None

    def __str__(self) -> str:
        given = ((each.name, getattr(self, each.name)) for each in fields(self))
        return " ".join(f"{name}={value}" for name, value in given if value is not None)

    def arguments(self) -> tuple[str | None, str | None, str | None]:
        return self.tenant, self.entity_type, self.entity_id


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Table pages of one partition. after: pages that are done after it, of `of` in total."""

    part: str
    lower: datetime
    upper: datetime
    first: int
    end: int
    after: int
    of: int

    def arguments(self) -> tuple[object, ...]:
        return self.lower, self.upper, (self.first, 0), (self.end, 0)


async def hot(session: Session, table: HotTable, subject: Subject) -> list[tuple[int, str]]:
    """Hot rows about the subject, as (id, status); reads the whole table, in pages."""
    found: list[tuple[int, str]] = []
    above: int | None = 0
    while above is not None:
        row = await session.one(f"erase_scan_{table}", *subject.arguments(), above, _PAGE)
        found += zip(row["ids"], row["statuses"], strict=True)
        above = row["last"]
    return found


async def stretches(
    session: Session, tables: Sequence[HotTable]
) -> AsyncIterator[tuple[HotTable, BlockRange]]:
    """All stretches of history, oldest first; rows that are settled meanwhile are in the last."""
    partitions: list[tuple[HotTable, Row]] = []
    for table in tables:
        rows = await session.fetch("erase_partitions", f"{table}_history")
        partitions += [(table, row) for row in rows if row["pages"]]
    partitions.sort(key=lambda each: each[1]["lower"])
    total, after = sum(row["pages"] for _, row in partitions), 0
    for table, row in partitions:
        first, pages = 0, row["pages"]
        while first < pages:
            end = first + _STRETCH
            after += min(end, pages) - first
            # The last stretch has no bound: the partition may have grown.
            last = end if end < pages else 2**32 - 1
            yield (
                table,
                BlockRange(row["part"], row["lower"], row["upper"], first, last, after, total),
            )
            first = end


async def count(session: Session, table: HotTable, subject: Subject, where: BlockRange) -> Row:
    return await session.one(f"erase_count_{table}", *subject.arguments(), *where.arguments())


async def erase(
    session: Session, table: HotTable, subject: Subject, where: BlockRange, instead: str
) -> Row:
    """Erases their receipts, too. instead: JSON that replaces the errors."""
    statement = f"erase_{table}"
    row = await session.one(statement, *subject.arguments(), *where.arguments(), instead)
    if row["receipts"]:
        await session.execute("erase_receipts", row["receipts"])
    return row


async def may_be_spooled(session: Session) -> bool:
    """Whether webhooks are received, so that some may wait in a spool."""
    return bool(await session.fetchval("receives_webhooks"))


async def held(session: Session, subject: Subject) -> tuple[list[UUID], int]:
    """Held receipts with events about the subject, and the number of these events; reads all."""
    found: list[UUID] = []
    events = 0
    above: UUID | None = UUID(int=0)
    while above is not None:
        row = await session.one("erase_scan_held", *subject.arguments(), above, _PAGE)
        found += row["receipts"]
        events += row["events"]
        above = row["last"]
    return found, events


async def erase_held(session: Session, subject: Subject, receipts: Sequence[UUID]) -> None:
    await session.execute("erase_held", *subject.arguments(), receipts)
    await session.execute("erase_receipts", receipts)


async def erase_bodies(session: Session, receipts: Sequence[UUID]) -> None:
    await session.execute("erase_receipts", receipts)


async def cancel_events(session: Session, ids: Sequence[int]) -> list[int]:
    rows = await session.fetch("cancel_events", ids)
    return [row["id"] for row in rows]
