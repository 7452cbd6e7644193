"""The record of dedup keys in the database, and the notes of what was sent again.

Owns the tables `dedup` and `duplicates` beside the trigger that fills them in each insert's own
transaction (migrations/functions/accept_event.sql): that is the one way in, so no other record can
stand in for it (R1.10). Promises that forgetting walks a bounded piece of the table at a time.
Known limit: a key is kept until the walk has come by, so somewhat longer than its window.
"""

from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from inboxd.model.dedup import Windows
from inboxd.store.connections import Connection, one_row
from inboxd.store.statements import Statements


class Repeat(NamedTuple):
    """An event that was sent again; `ago`: seconds since then."""

    topic: str
    source: str
    key: str
    type: str
    event_id: UUID
    first_event: UUID
    conflict: bool
    ago: float


async def survey(connection: Connection, sql: Statements, windows: Windows) -> tuple[int, Windows]:
    """How many blocks the record has, and the windows with those that topics declare."""
    row = await one_row(connection, sql["dedup_blocks"])
    declared = dict(zip(row["topics"], row["windows"], strict=True))
    return row["blocks"], replace(windows, topics={**declared, **windows.topics})


async def forget(
    connection: Connection, sql: Statements, windows: Windows, first: int, end: int
) -> int:
    """Forget what is over in the blocks from `first` to before `end`; how many keys."""
    return int(
        await connection.fetchval(
            sql["purge_dedup"],
            *(first, end, windows.default),
            *(list(windows.topics), list(windows.topics.values())),
            *(list(windows.sources), list(windows.sources.values())),
        )
    )


async def drain(connection: Connection, sql: Statements, rows: int) -> list[Repeat]:
    """Take a page of the notes of what was sent again."""
    return [Repeat(*row) for row in await connection.fetch(sql["drain_duplicates"], rows)]
