"""The schedules table: what is to be sent, and when the next time is.

Owns its statements. Promises that whoever sends holds the row's lock, and moves the next time in
the transaction that inserts.
"""

from inboxd.store.session import Session


async def exists(session: Session, name: str) -> bool:
    """Whether somebody has declared this schedule."""
    found: bool = await session.connection.fetchval(session.sql["has_schedule"], name)
    return found
