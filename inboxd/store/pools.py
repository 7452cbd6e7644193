"""Pools of connections: the daemon's own, and that of commands' handlers.

Owns the borrowing of connections, and what is different behind a pooler in transaction mode (such
as PgBouncer): there, each borrowing is one transaction, which begins with the settings that a
session has otherwise; whoever needs more than one in a row lends a connection and opens each with
`transaction`. Promises that the first failure to connect says what to do, and that no statement is
waited for much longer than the server may work on it. Known limit: listening needs a session of its
own, so behind such a pooler new rows are found by the poll.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import asyncpg

from inboxd.settings import Database
from inboxd.store.connections import (
    LOST,
    OWN_PLANS,
    Connection,
    arguments,
    dial,
    explain_connecting,
    is_closed,
    session_settings,
)

# Neither the transport nor the transaction's own level can be set inside a transaction.
_NOT_LOCAL = ("application_name", "default_transaction", "tcp_")
_GRACE_SECONDS = 5.0


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
        # Beyond what the server allows: this bounds the wait for one that has vanished.
        command_timeout=database.statement_timeout.total_seconds() + _GRACE_SECONDS,
        connect=partial(_dial, database),
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
    """A connection from the pool for statements; waits for a free one at most `within` seconds."""
    async with lend(pool, within) as connection:
        if pool.preamble:
            async with transaction(pool, connection):
                yield connection
        else:
            yield connection


@asynccontextmanager
async def lend(pool: Pool, within: float = 30.0) -> AsyncIterator[Connection]:
    """A connection from the pool for transactions: each begins and commits with `transaction`."""
    connection = await pool.acquire(within)
    try:
        yield connection
    except TimeoutError:
        _give_up(connection)
        raise
    finally:
        await pool.release(connection)


@asynccontextmanager
async def transaction(pool: Pool, connection: Connection) -> AsyncIterator[None]:
    """One transaction of its own on a lent connection, behind a pooler as well."""
    async with connection.transaction(isolation="read_committed"):
        try:
            if pool.preamble:
                await connection.execute(pool.preamble)
            yield
        except TimeoutError:
            _give_up(connection)
            raise


def _give_up(connection: Connection) -> None:
    """The server does not answer: neither would it answer a rollback."""
    if not is_closed(connection):
        connection.terminate()


async def _dial(
    database: Database, _dsn: None, **words: Any
) -> "asyncpg.Connection[asyncpg.Record]":
    """How the driver's pool makes a connection; it passes on the DSN that it was not given."""
    return await dial(database, **words)


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
