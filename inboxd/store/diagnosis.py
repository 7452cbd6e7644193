"""Read-only checks of a running database, each bounded in time.

Promises that a check that takes too long (also for a lock), or lacks a privilege, fails alone.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import asyncpg

from inboxd.store.connections import explained
from inboxd.store.session import Session

# SQLSTATEs: statement_timeout and lock_timeout; insufficient privilege.
_TOO_LONG = ("57014", "55P03")
_DENIED = "42501"


@asynccontextmanager
async def bounded(session: Session, seconds: float) -> AsyncIterator[None]:
    """The limit is per statement. Raises DatabaseError or SchemaError; the session stays usable."""
    limit = f"{round(seconds * 1000)}ms"
    transaction = session.transaction(readonly=True)
    with explained(asked=session.connection):
        await transaction.start()
        try:
            await session.execute("doctor_bounds", limit, limit)
            yield
        finally:
            if not session.connection.is_closed():
                await transaction.rollback()


def why(error: Exception) -> Literal["too long", "denied", "other"]:
    match error.__cause__:
        case asyncpg.PostgresError(sqlstate=str(state)) if state in _TOO_LONG:
            return "too long"
        case asyncpg.PostgresError(sqlstate=str(state)) if state == _DENIED:
            return "denied"
        case _:
            return "other"
