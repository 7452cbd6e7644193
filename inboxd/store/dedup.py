"""The record of dedup keys in the database, and the notes of what was sent again.

Owns the tables `dedup` and `duplicates` beside the trigger that fills them (migration 0013).
Promises that a key is recorded in the caller's transaction, that of any number of concurrent
receptions one is the first, and that forgetting walks a bounded piece of the table at a time.
Known limit: a key is kept until the walk has come by, so somewhat longer than its window.
"""

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from inboxd.model.dedup import Known, Received, Windows
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements

# Blocks of 8 KB that one statement looks at, when nobody measures how long that takes.
_BLOCKS = 1_000


class Repeat(NamedTuple):
    """An event that was sent again; `minute`: when, in whole minutes."""

    topic: str
    source: str
    key: str
    type: str
    event_id: UUID
    first_event: UUID
    conflict: bool
    minute: datetime


class DatabaseRecord:
    """The record, on a connection and in its transaction. Waits for who records the same key."""

    def __init__(self, connection: Connection, sql: Statements) -> None:
        """Remember on `connection`."""
        self._connection = connection
        self._sql = sql

    async def remember(self, received: Received) -> Known | None:
        """Record a key; the event that has it already, or None: this is the first."""
        row = await self._connection.fetchrow(
            self._sql["remember"],
            *(received.topic, received.source, received.key, received.event_id),
            *(received.type, received.schema_version, received.payload),
        )
        assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
        return None if row["first_event"] is None else Known(*row)

    async def forget(self, windows: Windows) -> int:
        """Forget every key whose window is over; how many."""
        blocks, windows = await survey(self._connection, self._sql, windows)
        return sum(
            [
                await forget(self._connection, self._sql, windows, first, first + _BLOCKS)
                for first in range(0, blocks, _BLOCKS)
            ]
        )


async def survey(connection: Connection, sql: Statements, windows: Windows) -> tuple[int, Windows]:
    """How many blocks the record has, and the windows with those that topics declare."""
    row = await connection.fetchrow(sql["dedup_blocks"])
    assert row is not None  # noqa: S101 - an aggregate answers one row
    declared = dict(zip(row["topics"], row["windows"], strict=True))
    return row["blocks"], replace(windows, topics={**declared, **windows.topics})


async def forget(
    connection: Connection, sql: Statements, windows: Windows, first: int, end: int
) -> int:
    """Forget what is over in the blocks from `first` to before `end`; how many keys."""
    gone: int = await connection.fetchval(
        sql["purge_dedup"],
        *(first, end, windows.default),
        *(list(windows.topics), list(windows.topics.values())),
        *(list(windows.sources), list(windows.sources.values())),
    )
    return gone


async def drain(connection: Connection, sql: Statements, rows: int) -> list[Repeat]:
    """Take a page of the notes of what was sent again."""
    return [Repeat(*row) for row in await connection.fetch(sql["drain_duplicates"], rows)]
