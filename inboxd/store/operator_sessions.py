"""Operators' sessions: opened for one operation, which costs a connection, or kept for reading.

Promises errors with a remedy, and no wait longer than the settings' time limits.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic
from typing import Final

import anyio
import asyncpg

from inboxd.settings import Database
from inboxd.store.connections import ERRAND_PLANS, explained
from inboxd.store.pools import Pool, look_at, open_pool
from inboxd.store.session import Session, connect
from inboxd.store.statements import Kept, Statements

_GOODBYE_SECONDS = 2
# Seconds for which a role's known privileges are not checked again.
_RIGHTS: Final = 10.0
# The remedy if all read-only sessions are in use: there are few, so that they cost little.
_BUSY: Final = (
    "all sessions of the pages are busy with slow reads: try again in a moment; if this persists, "
    "see what takes long (inboxd doctor), or narrow the filter"
)


@asynccontextmanager
async def open_session(
    database: Database, *, patient: bool = False, part: str = "cli"
) -> AsyncIterator[Session]:
    """patient: statements have no time limit. Raises DatabaseError or SchemaError."""
    plans = ERRAND_PLANS | ({"statement_timeout": "0"} if patient else {})
    session = await connect(database, part, plans=plans)
    connection = session.connection
    try:
        with explained(_denied(database), connection):
            withheld = await _withheld(session)
            yield Session(connection, Statements(database.schema_name, withheld), withheld)
    finally:
        with anyio.move_on_after(_GOODBYE_SECONDS, shield=True):
            await connection.close()
        connection.terminate()


class Looks:
    """A granted privilege takes effect in `_RIGHTS` seconds; a revoked one is refused at once."""

    def __init__(self, pool: Pool, database: Database) -> None:
        self._pool, self._database = pool, database
        self._withheld: frozenset[Kept] = frozenset()
        self._statements: Statements | None = None
        self._known_until = float("-inf")

    @asynccontextmanager
    async def look(self, within: float) -> AsyncIterator[Session]:
        """Waits at most `within` seconds. Raises DatabaseError or SchemaError."""
        with explained(_denied(self._database)):
            async with look_at(self._pool, within) as session:
                with explained(_denied(self._database), session.connection):
                    statements = await self._allowed(session)
                    try:
                        yield Session(session.connection, statements, self._withheld)
                    except asyncpg.InsufficientPrivilegeError:
                        self._known_until = float("-inf")
                        raise

    async def _allowed(self, session: Session) -> Statements:
        if self._statements is None or monotonic() >= self._known_until:
            withheld = await _withheld(session)
            if self._statements is None or withheld != self._withheld:
                self._statements = Statements(self._database.schema_name, withheld)
            self._withheld = withheld
            self._known_until = monotonic() + _RIGHTS
        return self._statements


@asynccontextmanager
async def open_looks(
    database: Database, part: str, size: int, timeout: timedelta
) -> AsyncIterator[Looks]:
    """At most `size` read-only sessions; timeout: the time limit of a statement."""
    milliseconds = str(round(timeout.total_seconds() * 1000))
    plans = ERRAND_PLANS | {
        "statement_timeout": milliseconds,
        "default_transaction_read_only": "on",
    }
    async with open_pool(database, part, size, plans, remedy=_BUSY) as pool:
        yield Looks(pool, database)


async def _withheld(session: Session) -> frozenset[Kept]:
    return frozenset(row["kind"] for row in await session.fetch("withheld"))


def _denied(database: Database) -> str:
    schema = database.schema_name
    return (
        f"members of {schema}_viewer may look, those of {schema}_operator also act on rows, "
        f"those of {schema}_producer emit and send, those of {schema}_worker do all of it: "
        "connect as one, or GRANT that role TO this one; see: inboxd check"
    )
