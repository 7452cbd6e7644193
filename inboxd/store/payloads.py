"""Payloads as text, as PostgreSQL writes what it stores.

Owns the statements behind `inboxd.operations.payloads`. Promises that no number passes through a
double, and that no text is longer than it was said.
"""

from inboxd.store.connections import Row
from inboxd.store.producing import refusals
from inboxd.store.session import Session


async def of_command(session: Session, id: int, most: int) -> Row | None:
    """Its text, which is NULL if it has more than `most` bytes; None: no unsettled one has it."""
    return await session.fetchrow("payload_text", id, most)


async def as_stored(session: Session, text: str, most: int) -> str | None:
    """JSON text as it would be stored; None: that has more than `most` bytes.

    Raises UsageError for what the database does not take.
    """
    with refusals():
        found: str | None = await session.fetchval("json_as_stored", text, most)
    return found
