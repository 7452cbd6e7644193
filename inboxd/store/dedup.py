"""The record of dedup keys in the database, and the notes of duplicates.

Only the trigger of each insert fills them (R1.10, migrations/functions/accept_event.sql). Promises
that one call forgets in a bounded range. Known limit: a key stays until a call gets to it.
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
    return [Repeat(*row) for row in await session.fetch("drain_duplicates", rows)]
