"""Receipts whose body contains a text, and the dead letters that hold such a body."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session

_BODIES = 100  # receipts per statement that reads their bodies


@dataclass(frozen=True, slots=True)
class MatchedReceipt:
    """broken: its events, if these are dead letters with the raw body."""

    id: UUID
    broken: Sequence[UUID]


async def matching(session: Session, text: bytes) -> list[MatchedReceipt]:
    """Return the receipts whose body contains the text; reads all bodies, in pages."""
    found: list[MatchedReceipt] = []
    for statement in ("match_receipts", "match_kept_receipts"):
        after: UUID | None = None
        while rows := await session.fetch(statement, text, after, _BODIES):
            found += [
                MatchedReceipt(row["receipt_id"], row["broken"]) for row in rows if row["matches"]
            ]
            after = rows[-1]["receipt_id"]
    return found


async def held_among(session: Session, receipts: Sequence[UUID]) -> int:
    return int(await session.fetchval("held_among", receipts))


async def erase_broken(session: Session, events: Sequence[UUID], instead: str) -> Row:
    """Erase these settled events; returns the number of rows, and their partitions."""
    return await session.one("erase_broken", events, instead)
