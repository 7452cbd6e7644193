"""Payloads as text, in the form in which PostgreSQL returns JSON.

Promises that numbers never become doubles, and that a text has at most the given bytes.
"""

from inboxd.store.connections import Row
from inboxd.store.producing import refusals
from inboxd.store.session import Session


async def of_command(session: Session, id: int, most: int) -> Row | None:
    """An unsettled command's payload; its text is NULL above `most` bytes. None: not found."""
    return await session.fetchrow("payload_text", id, most)


async def as_stored(session: Session, text: str, most: int) -> str | None:
    """None: it has more than `most` bytes. Raises UsageError if the database refuses it."""
    with refusals():
        found: str | None = await session.fetchval("json_as_stored", text, most)
    return found
