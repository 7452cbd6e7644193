"""Pools of connections: the daemon's own, and that of commands' handlers.

Owns the borrowing of connections, and what is different behind a pooler in transaction mode (such
as PgBouncer): there, each borrowing is one transaction, which begins with the settings that a
session has otherwise. Promises that the first failure to connect says what to do. Known limit:
listening needs a session of its own, so behind such a pooler new rows are found by the poll.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import asyncpg

from inboxd.settings import Database
from inboxd.store.connections import (
    LOST,
    OWN_PLANS,
    Connection,
    arguments,
    explain_connecting,
    session_settings,
)

# Neither the transport nor the transaction's own level can be set inside a transaction.
_NOT_LOCAL = ("application_name", "default_transaction", "tcp_")


class Pool:
    """A bounded number of connections, made when first needed, and kept."""

    def __init__(
        self,
        inner: "asyncpg.Pool[asyncpg.Record]",
        database: Database,
        preamble: str,
    ) -> None:
        """Lend from `inner`; `preamble` begins each transaction where sessions keep no settings."""
        self.preamble = preamble
        self._inner = inner
        self._database = database

    @property
    def idle(self) -> int:
        """Open connections that nobody has borrowed."""
        return self._inner.get_idle_size()

    @property
    def used(self) -> int:
        """Connections that are borrowed."""
        return self._inner.get_size() - self.idle

    async def acquire(self, within: float) -> Connection:
        """A connection, waiting for a free one at most so many seconds. Raises DatabaseError."""
        try:
            return await self._inner.acquire(timeout=within)
        except (*LOST, asyncpg.PostgresError) as error:
            raise explain_connecting(error, self._database) from error

    async def release(self, connection: Connection) -> None:
        """Give a connection back; a broken one is dropped, which is nobody's failure."""
        # When its reset fails, the driver has ended it before it says so.
        with suppress(*LOST, asyncpg.PostgresError):
            await self._inner.release(connection, timeout=5)  # type: ignore[arg-type]


@asynccontextmanager
async def open_pool(
    database: Database, purpose: str, size: int, plans: Mapping[str, str] = OWN_PLANS
) -> AsyncIterator[Pool]:
    """A pool for the `async with` block.

    plans: OWN_PLANS for the daemon's statements; empty for handlers, whose sessions are also reset
    before the next handler gets them.
    """
    keep: dict[str, Any] = {"reset": _keep_session}
    inner = asyncpg.create_pool(
        min_size=0,
        max_size=size,
        max_inactive_connection_lifetime=0,
        **(keep if plans or database.transaction_pooler else {}),
        **arguments(database, purpose, plans),
    )
    await inner
    try:
        yield Pool(inner, database, _preamble(database, plans))
    finally:
        with anyio.move_on_after(5, shield=True):
            await inner.close()
        inner.terminate()


@asynccontextmanager
async def borrow(pool: Pool, within: float = 30.0) -> AsyncIterator[Connection]:
    """A connection from the pool, waiting for a free one at most `within` seconds."""
    connection = await pool.acquire(within)
    try:
        if pool.preamble:
            async with connection.transaction(isolation="read_committed"):
                await connection.execute(pool.preamble)
                yield connection
        else:
            yield connection
    finally:
        await pool.release(connection)


async def _keep_session(_connection: object) -> None:
    """The daemon changes no session state, so there is nothing to reset: a round trip saved."""


def _preamble(database: Database, plans: Mapping[str, str]) -> str:
    """The session's settings for one transaction; empty where the session itself keeps them."""
    if not database.transaction_pooler:
        return ""
    settings = session_settings(database, "") | dict(plans)
    return "; ".join(
        f"SET LOCAL {name} = '{value}'"
        for name, value in settings.items()
        if not name.startswith(_NOT_LOCAL)
    )
