"""Pools of connections: the daemon's own, and that of commands' handlers.

Owns the borrowing of connections, and what is different behind a pooler in transaction mode (such
as PgBouncer): there, each borrowing is one transaction, which begins with the settings that a
session has otherwise; whoever needs more than one in a row lends a connection and opens each with
`transaction`. Promises that a connection goes to who has waited longest, that none comes with a
transaction that somebody else left open, that the first failure to connect says what to do, and
that no statement is waited for much longer than the server may work on it. The driver's own pool
would do, but for one thing: with each command in a transaction of its own, a connection that
somebody waits for is handed on with the next transaction begun, which saves a round trip
(`Pool.wanted`, ADR 6). Known limit: listening needs a session of its own, so behind such a pooler
new rows are found by the poll.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import anyio
import asyncpg

from inboxd.errors import DatabaseError
from inboxd.settings import Database
from inboxd.store import prepared
from inboxd.store.connections import (
    LOST,
    OWN_PLANS,
    VOID,
    Connection,
    arguments,
    dial,
    explain_connecting,
    session_settings,
)

# Neither the transport nor the transaction's own level can be set inside a transaction.
_NOT_LOCAL = ("application_name", "default_transaction", "tcp_")
_GRACE_SECONDS = 5.0
# Seconds that tidying a connection, or saying goodbye on it, may take before it is dropped.
_PATIENCE = 5.0
_REMEDY = "raise database.pool_size or handler_pool_size, or let handlers hold theirs for less time"

Dial = Callable[[], Awaitable[Connection]]
# Where one stands in line; its result is a connection, or None: there is room to make one.
_Waiter: TypeAlias = "asyncio.Future[Connection | None]"


class Pool:
    """A bounded number of connections, made when first needed, and kept."""

    def __init__(
        self, dial: Dial, size: int, database: Database, preamble: str, remedy: str | None = None
    ) -> None:
        """Keep up to `size`; `preamble` begins each transaction where sessions keep no settings.

        remedy: what is said to whoever waited for a free one in vain.
        """
        self.preamble = preamble
        self._remedy = remedy or _REMEDY
        self._dial = dial
        self._size = size
        self._database = database
        self._open: set[Connection] = set()
        # Room that somebody was given to make one, whether or not it has begun.
        self._opening = 0
        self._idle: list[Connection] = []
        # Borrowed, and to prepare anew what they have prepared.
        self._void: set[Connection] = set()
        self._waiters: deque[_Waiter] = deque()

    @property
    def idle(self) -> int:
        """Open connections that nobody has borrowed."""
        return len(self._idle)

    @property
    def used(self) -> int:
        """Connections that are borrowed."""
        return len(self._open) - len(self._idle)

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for the next connection that is given back."""
        return any(not waiter.done() for waiter in self._waiters)

    async def acquire(self, within: float) -> Connection:
        """A connection, waiting for a free one at most so many seconds. Raises DatabaseError."""
        connection: Connection | None
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._open.discard(connection)
        if self._has_room():
            self._opening += 1
        else:
            connection = await self._stand_in_line(within)
            if connection is not None:
                return connection
        return await self._connect()

    async def release(self, connection: Connection, *, begun: bool = False) -> None:
        """Give a connection back; a broken one is dropped, which is nobody's failure.

        begun: its next transaction has begun, for who waits; if nobody does, it is undone.
        """
        if connection in self._void:
            self._void.discard(connection)
            prepared.forget(connection)
        try:
            if not connection.is_closed():
                begun = begun and self.wanted
                is_as_said = connection.is_in_transaction() is begun
                if not is_as_said or _is_cancelling(connection) or _has_a_transaction(connection):
                    await _tidy(connection)
        finally:
            if connection.is_closed():
                self._open.discard(connection)
                self._offer_room()
            elif not self._serve(connection):
                self._idle.append(connection)

    def prepare_anew(self) -> None:
        """What one session had prepared is void: no other session is to find that out by itself."""
        self._void = self._open - {*self._idle}
        for connection in self._idle:
            prepared.forget(connection)

    async def close(self) -> None:
        """Say goodbye on what is idle, and end the rest."""
        with anyio.move_on_after(_PATIENCE, shield=True):
            for connection in self._idle:
                await connection.close()
        for connection in self._open:
            connection.terminate()

    def _has_room(self) -> bool:
        return len(self._open) + self._opening < self._size

    def _offer_room(self) -> None:
        """Let the first in line make a connection; nobody may take its room meanwhile."""
        if self._has_room() and self._serve(None):
            self._opening += 1

    async def _connect(self) -> Connection:
        """A new connection, in room that was given."""
        try:
            connection = await self._dial()
        except (*LOST, asyncpg.PostgresError) as error:
            raise explain_connecting(error, self._database) from error
        else:
            self._open.add(connection)
            return connection
        finally:
            self._opening -= 1
            self._offer_room()

    async def _stand_in_line(self, within: float) -> "Connection | None":
        """The next connection that is given back; None: there is room to make one."""
        loop = asyncio.get_running_loop()
        waiter: _Waiter = loop.create_future()
        timer = loop.call_later(within, _expire, waiter, within, self._remedy)
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                connection = waiter.result()
                if connection is None:
                    self._opening -= 1
                    self._offer_room()
                else:
                    await self.release(connection, begun=connection.is_in_transaction())
            raise
        finally:
            timer.cancel()

    def _serve(self, connection: "Connection | None") -> bool:
        """Let the first in line go on; False if nobody waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False


def _expire(waiter: _Waiter, within: float, remedy: str) -> None:
    if not waiter.done():
        waiter.set_exception(
            DatabaseError(f"no connection became free within {within:g} s; {remedy}")
        )


def _is_cancelling(connection: Connection) -> bool:
    """Whether the driver still waits for the server to obey a cancellation."""
    return connection._protocol._is_cancelling()  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001 - as the driver's own pool does


def _has_a_transaction(connection: Connection) -> bool:
    """Whether the driver takes one for open: also one whose beginning was cancelled."""
    return connection._top_xact is not None  # type: ignore[attr-defined]  # noqa: SLF001 - as above


async def _tidy(connection: Connection) -> None:
    """Wait for a cancellation to end, and undo a transaction; drop what does not obey."""
    try:
        with anyio.fail_after(_PATIENCE, shield=True):
            if _is_cancelling(connection):
                await connection._protocol._wait_for_cancellation(_PATIENCE)  # type: ignore[attr-defined]  # noqa: SLF001 - as above
            connection._top_xact = None  # type: ignore[attr-defined]  # noqa: SLF001 - as above
            if not connection.is_closed() and connection.is_in_transaction():
                await connection.execute("ROLLBACK")
    except (*LOST, asyncpg.PostgresError):
        connection.terminate()
    except BaseException:  # a handler's time limit insists: it cancels its task, not a scope
        connection.terminate()
        raise


@asynccontextmanager
async def open_pool(
    database: Database,
    purpose: str,
    size: int,
    plans: Mapping[str, str] = OWN_PLANS,
    *,
    remedy: str | None = None,
) -> AsyncIterator[Pool]:
    """A pool for the `async with` block.

    plans: OWN_PLANS for the daemon's statements; empty for handlers' sessions. remedy: what is
    said to whoever waited for a free connection in vain.
    """
    words = arguments(database, purpose, plans)
    # Beyond what the server allows: this bounds the wait for one that has vanished.
    words["command_timeout"] = database.statement_timeout.total_seconds() + _GRACE_SECONDS
    preamble = _preamble(database, plans)
    pool = Pool(partial(dial, database, **words), size, database, preamble, remedy)
    try:
        yield pool
    finally:
        await pool.close()


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
async def look_at(pool: Pool, within: float = 30.0) -> AsyncIterator[Connection]:
    """A connection from the pool for statements that only read.

    Behind a pooler, where no session keeps that it only reads, they are one snapshot: whoever wants
    one for some of them finds it there, since no transaction within another has its own.
    """
    async with lend(pool, within) as connection:
        if not pool.preamble:
            yield connection
            return
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            try:
                await connection.execute(pool.preamble)
                yield connection
            except TimeoutError:
                _give_up(connection)
                raise


@asynccontextmanager
async def lend(pool: Pool, within: float = 30.0) -> AsyncIterator[Connection]:
    """A connection from the pool for transactions: each begins and commits with `transaction`."""
    connection = await pool.acquire(within)
    try:
        yield connection
    except TimeoutError:
        _give_up(connection)
        raise
    except VOID:
        pool.prepare_anew()
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


@asynccontextmanager
async def transact(pool: Pool) -> AsyncIterator[Connection]:
    """A connection from the pool in a transaction of its own, which commits at the end."""
    async with lend(pool) as connection, transaction(pool, connection):
        yield connection


def _give_up(connection: Connection) -> None:
    """The server does not answer: neither would it answer a rollback."""
    connection.terminate()


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
