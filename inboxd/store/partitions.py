"""The partitions of history, bodies and receipts, a day each: made ahead, gone when they served.

Owns the statements on partitions. Promises that a partition is written down (`retired`) before it
is detached, so that whoever finds it detached knows whose doing it was; that only what is written
down and detached is dropped; and of one that was exported, no row that is not in the file. A login
that is a member of the owner's role detaches concurrently, which locks out nobody; another one's
lock stops readers and writers while it waits, so it waits 50 ms at the most, and tries again; so
does the end of a detaching that was interrupted. Known limit: a reader that holds a table of
history for hours delays the detaching as long.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

import anyio
import asyncpg

from inboxd.errors import PartitionBusy
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements

BODIES, RECEIPTS = "bodies", "receipts"
HISTORY = ("events_history", "commands_history")

# Tries, and seconds between them, of what locks others out while it waits.
_TRIES, _PAUSE = 40, 0.25
# Rows of each table whose bodies are copied in one transaction.
_KEPT = 200


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
    """A table that is called like a partition and is none; see `partitions_apart.sql`."""

    part: str
    ahead: int
    attach: str
    rename: str


async def days_ahead(connection: Connection, sql: Statements) -> int:
    """How many days after today have partitions; -1: not even today."""
    return int(await connection.fetchval(sql["partition_days"]))


async def apart(connection: Connection, sql: Statements) -> list[Apart]:
    """What a person detached, the nearest day to come first, those that are over last.

    In the place of one of today or later (`ahead` from 0 on) no partition can be made.
    """
    return [Apart(**row) for row in await connection.fetch(sql["partitions_apart"])]


async def make(connection: Connection, sql: Statements, days: int) -> int:
    """Make what is missing for the days ahead; returns how many were made.

    A table that is there is not touched, also one that is `apart`.
    """
    return int(await connection.fetchval(sql["make_partitions"], days))


async def listed(
    connection: Connection, sql: Statements, *, sizes: bool = False
) -> list[Partition]:
    """All of them, the oldest of each table first; `bytes` and `empty` only with `sizes`."""
    rows = await connection.fetch(sql["list_partitions"], sizes)
    return [Partition(**{**row, "trimmed": tuple(row["trimmed"])}) for row in rows]


async def retire(connection: Connection, sql: Statements, partition: Partition) -> None:
    """Write down that it is to go."""
    await connection.execute(sql["retire_partition"], partition.part)


async def record_export(
    connection: Connection, sql: Statements, partition: Partition, rows: int, size: int, file: str
) -> bool:
    """Write down where its rows are now; `size` in bytes. False: somebody else has done so."""
    return bool(await connection.fetchval(sql["record_export"], partition.part, rows, size, file))


async def detach(connection: Connection, sql: Statements, partition: Partition) -> None:
    """Take a retired partition out of its table. Outside of any transaction.

    Raises PartitionBusy when readers hold it for too long; a later try goes on from there.
    """
    with _busy(partition):
        if partition.owned:
            query = await connection.fetchval(
                sql["detach_concurrently"], partition.parent, partition.part
            )
            await connection.execute(query)
        else:
            await _insist(connection, sql["leave_partition"], partition)


async def finalize(connection: Connection, sql: Statements, partition: Partition) -> None:
    """End a detaching that was interrupted. Raises as `detach` does."""
    with _busy(partition):
        await _insist(connection, sql["finalize_partition"], partition)


async def _insist(connection: Connection, statement: str, partition: Partition) -> None:
    """Try what waits for its lock only briefly, since others wait behind it, again and again."""
    for _ in range(_TRIES):
        with suppress(asyncpg.LockNotAvailableError):
            await connection.execute(statement, partition.part)
            return
        await anyio.sleep(_PAUSE)
    await connection.execute(statement, partition.part)


@contextmanager
def _busy(partition: Partition) -> Iterator[None]:
    try:
        yield
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
        raise PartitionBusy(
            f"{partition.part} is being read: it goes when its readers have ended; "
            "`inboxd doctor` names transactions that are open for long"
        ) from error
    except (asyncpg.ObjectNotInPrerequisiteStateError, asyncpg.UndefinedTableError) as error:
        raise PartitionBusy(
            f"{partition.part} is being detached by somebody else, or cannot be: {error}"
        ) from error


async def give_back(connection: Connection, sql: Statements, partition: Partition) -> None:
    """Attach it again, as if it had never been retired."""
    await connection.execute(sql["return_partition"], partition.part)


async def drop(connection: Connection, sql: Statements, partition: Partition) -> bool | None:
    """Drop what is retired and detached: True; False if it has rows that its export has not.

    None: somebody else was quicker, with this or with attaching it again. Raises PartitionBusy.
    """
    with _busy(partition):
        dropped: bool | None = await connection.fetchval(sql["drop_partition"], partition.part)
    return dropped


async def keep_bodies(connection: Connection, sql: Statements, partition: Partition) -> int:
    """Copy forward what rows still need of a partition of bodies; returns how many rows."""
    kept = 0
    while page := await connection.fetchval(
        sql["keep_bodies"], partition.low, partition.high, _KEPT
    ):
        kept += page
    return kept


async def keep_receipts(connection: Connection, sql: Statements, partition: Partition) -> int:
    """Copy what a partition of receipts has of events that are not settled; returns how many."""
    arguments = partition.low, partition.high
    return int(await connection.fetchval(sql["keep_receipts"], *arguments))


async def needed(connection: Connection, sql: Statements, partition: Partition) -> bool:
    """Whether a row needs a body of this partition."""
    return bool(await connection.fetchval(sql["bodies_needed"], partition.low, partition.high))


async def pages(connection: Connection, sql: Statements, partition: Partition) -> int:
    """How many pages its table has."""
    return int(await connection.fetchval(sql["partition_pages"], partition.part))


async def missing_indexes(connection: Connection, sql: Statements) -> list[tuple[str, str]]:
    """The indexes that days which are over have not got: part, and type, tenant or entity."""
    return [(row["part"], row["what"]) for row in await connection.fetch(sql["missing_indexes"])]


async def index(connection: Connection, sql: Statements, part: str, what: str) -> bool:
    """Make one of these; False: it is there. Raises PartitionBusy while somebody writes to it."""
    try:
        return bool(await connection.fetchval(sql["index_partition"], part, what))
    except (asyncpg.LockNotAvailableError, asyncpg.DuplicateTableError) as error:
        raise PartitionBusy(f"{part} is being written to: it is indexed later") from error


async def trim(
    connection: Connection,
    sql: Statements,
    partition: Partition,
    types: list[str],
    first: int,
    count: int,
) -> int:
    """Remove rows of these types from `count` pages of it; returns how many rows."""
    return int(
        await connection.fetchval(sql["trim_partition"], partition.part, types, first, count)
    )


async def record_trim(
    connection: Connection, sql: Statements, partition: Partition, types: list[str], rows: int
) -> None:
    """Write down that these types are gone from it."""
    await connection.execute(sql["record_trim"], partition.part, types, rows)
