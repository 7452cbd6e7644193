"""The record of dedup keys in the database, and the notes of duplicates.

Owns the tables `dedup` and `duplicates`, together with the trigger that fills them in each insert's
own transaction (migrations/functions/accept_event.sql). Rows enter only there, so no other record
can replace it (R1.10). Promises that one call forgets in a bounded range of the table.
Known limit: a key stays until the walk reaches it, so somewhat longer than its window.
"""

from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from inboxd.model.dedup import Windows
from inboxd.store.session import Session


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


async def survey(session: Session, windows: Windows) -> tuple[int, Windows]:
    """The size of the table `dedup` in blocks; and `windows`, plus those that topics declare."""
    row = await session.one("dedup_blocks")
    declared = dict(zip(row["topics"], row["windows"], strict=True))
    return row["blocks"], replace(windows, topics={**declared, **windows.topics})


async def forget(session: Session, windows: Windows, first: int, end: int) -> int:
    """Delete expired keys in the blocks from `first` to before `end`; returns their number."""
    return int(
        await session.fetchval(
            "purge_dedup",
            *(first, end, windows.default),
            *(list(windows.topics), list(windows.topics.values())),
            *(list(windows.sources), list(windows.sources.values())),
        )
    )


async def drain(session: Session, rows: int) -> list[Repeat]:
    """Delete and return a page of the notes of duplicates."""
    return [Repeat(*row) for row in await session.fetch("drain_duplicates", rows)]
