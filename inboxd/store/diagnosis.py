"""Looks at a database that works: each bounded in time, none changes anything.

Owns the transaction around such a look. Promises that a look which takes too long, or lacks a
privilege, fails alone, in words. Known limit: a statement that waits for a lock counts as too long.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import asyncpg

from inboxd.store.connections import explained
from inboxd.store.session import Session

# SQLSTATEs: the statement's time limit, and a lock's; what the role may not see.
_TOO_LONG = ("57014", "55P03")
_DENIED = "42501"


@asynccontextmanager
async def bounded(session: Session, seconds: float) -> AsyncIterator[None]:
    """A transaction that only reads; each statement gets so long.

    Raises DatabaseError or SchemaError; the session can be used further.
    """
    limit = f"{round(seconds * 1000)}ms"
    transaction = session.connection.transaction(readonly=True)
    with explained(asked=session.connection):
        await transaction.start()
        try:
            await session.execute("doctor_bounds", limit, limit)
            yield
        finally:
            if not session.connection.is_closed():
                await transaction.rollback()


def why(error: Exception) -> Literal["too long", "denied", "other"]:
    """What kept a look from its end."""
    match error.__cause__:
        case asyncpg.PostgresError(sqlstate=str(state)) if state in _TOO_LONG:
            return "too long"
        case asyncpg.PostgresError(sqlstate=str(state)) if state == _DENIED:
            return "denied"
        case _:
            return "other"
