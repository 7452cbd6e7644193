"""The daily partitions of history, bodies and receipts: made in advance, detached, dropped.

Promises that only tables are dropped which were recorded (`retired`) before they were detached, and
that none had rows which its export lacks. A member of the owner's role detaches concurrently, which
blocks no other session; any other login needs a lock for which others queue, so it waits at most 50
ms per try. Known limit: a reader that holds a table for hours delays the detach as long.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

import anyio
import asyncpg

from inboxd.errors import PartitionBusy
from inboxd.store.session import Session

BODIES, RECEIPTS = "bodies", "receipts"
HISTORY = ("events_history", "commands_history")

# Tries, and seconds between them, for statements that block other sessions while they wait.
_TRIES, _PAUSE_SECONDS = 40, 0.25
# Rows per table and transaction whose bodies are copied forward.
_KEPT_ROWS = 200


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; see `list_partitions.sql`. age: seconds since its range ended."""

    parent: str
    part: str
    low: datetime
    high: datetime
    state: str
    owned: bool
    age: float
    rows: int | None
    bytes: int | None
    empty: bool | None
    exported: int | None
    retired: bool
    trimmed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    part: str
    ahead: int
    attach: str
    rename: str


async def days_ahead(session: Session) -> int:
    """The number of days after today that have partitions; -1: not even today has."""
    return int(await session.fetchval("partition_days"))


async def apart(session: Session) -> list[Apart]:
    """A person detached them. While one has `ahead` >= 0, no partition can take its place."""
    return [Apart(**row) for row in await session.fetch("partitions_apart")]


async def make(session: Session, days: int) -> int:
    """Returns their number. It does not touch existing tables, nor those in `apart`."""
    return int(await session.fetchval("make_partitions", days))


async def listed(session: Session, *, sizes: bool = False) -> list[Partition]:
    """All partitions, oldest first within a table; `bytes` and `empty` only with `sizes`."""
    rows = await session.fetch("list_partitions", sizes)
    return [Partition(**{**row, "trimmed": tuple(row["trimmed"])}) for row in rows]


async def retire(session: Session, partition: Partition) -> None:
    await session.execute("retire_partition", partition.part)


async def record_export(
    session: Session, partition: Partition, rows: int, size: int, file: str
) -> bool:
    """Record the export of a partition; size: bytes. False: it was exported already."""
    return bool(await session.fetchval("record_export", partition.part, rows, size, file))


async def detach(session: Session, partition: Partition) -> None:
    """Needs no open transaction. Raises PartitionBusy; a later call goes on from there."""
    with _busy(partition):
        if partition.owned:
            query = await session.fetchval("detach_concurrently", partition.parent, partition.part)
            await session.connection.execute(query)
        else:
            await _insist(session, "leave_partition", partition)


async def finalize(session: Session, partition: Partition) -> None:
    """Finish an interrupted detach. Raises as `detach` does."""
    with _busy(partition):
        await _insist(session, "finalize_partition", partition)


async def _insist(session: Session, statement: str, partition: Partition) -> None:
    """Repeat a statement that waits only briefly for its lock, since other sessions queue."""
    for _ in range(_TRIES):
        with suppress(asyncpg.LockNotAvailableError):
            await session.execute(statement, partition.part)
            return
        await anyio.sleep(_PAUSE_SECONDS)
    await session.execute(statement, partition.part)


@contextmanager
def _busy(partition: Partition) -> Iterator[None]:
    try:
        yield
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
        raise PartitionBusy(
            f"{partition.part} is being read: it is removed when its readers have ended; "
            "`inboxd doctor` names transactions that have been open for long"
        ) from error
    except (asyncpg.ObjectNotInPrerequisiteStateError, asyncpg.UndefinedTableError) as error:
        raise PartitionBusy(
            f"another session is detaching {partition.part}, or it cannot be detached: {error}"
        ) from error


async def give_back(session: Session, partition: Partition) -> None:
    await session.execute("return_partition", partition.part)


async def drop(session: Session, partition: Partition) -> bool | None:
    """False: its export lacks rows. None: another session was faster. Raises PartitionBusy."""
    with _busy(partition):
        dropped: bool | None = await session.fetchval("drop_partition", partition.part)
    return dropped


async def keep_bodies(session: Session, partition: Partition) -> int:
    kept = 0
    while page := await session.fetchval("keep_bodies", partition.low, partition.high, _KEPT_ROWS):
        kept += page
    return kept


async def keep_receipts(session: Session, partition: Partition) -> int:
    arguments = partition.low, partition.high
    return int(await session.fetchval("keep_receipts", *arguments))


async def needed(session: Session, partition: Partition) -> bool:
    """Whether a row still needs a body of this partition."""
    return bool(await session.fetchval("bodies_needed", partition.low, partition.high))


async def pages(session: Session, partition: Partition) -> int:
    return int(await session.fetchval("partition_pages", partition.part))


async def missing_indexes(session: Session) -> list[tuple[str, str]]:
    """Missing indexes of finished days, as (part, "type", "tenant" or "entity")."""
    return [(row["part"], row["what"]) for row in await session.fetch("missing_indexes")]


async def index(session: Session, part: str, what: str) -> bool:
    """Make an index; False: it exists. Raises PartitionBusy while a session writes to the table."""
    try:
        return bool(await session.fetchval("index_partition", part, what))
    except (asyncpg.LockNotAvailableError, asyncpg.DuplicateTableError) as error:
        raise PartitionBusy(f"{part} is being written to: it is indexed later") from error


async def trim(
    session: Session, partition: Partition, types: list[str], first: int, count: int
) -> int:
    """Delete rows of these types from `count` table pages of it; returns the number of rows."""
    return int(await session.fetchval("trim_partition", partition.part, types, first, count))


async def record_trim(session: Session, partition: Partition, types: list[str], rows: int) -> None:
    await session.execute("record_trim", partition.part, types, rows)
