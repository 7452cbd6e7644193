"""Pools of sessions: one for the daemon's statements, one for command handlers.

Behind a pooler in transaction mode (such as PgBouncer) each borrowing is one transaction, which
begins with the settings that a session has otherwise; a caller that needs several uses `lend`, and
`transaction` for each. Promises that the longest waiting caller gets the next connection, that none
comes with an open transaction of an earlier borrower, and that no statement is awaited for much
longer than the server may work on it. The driver's own pool lacks one thing: it cannot hand a
connection on with the next transaction begun, which saves a round trip (`Pool.wanted`, ADR 6).
Known limit: behind such a pooler LISTEN is impossible, and polling finds new rows.
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
    whereabouts,
)
from inboxd.store.session import Session
from inboxd.store.statements import Statements

# Settings that cannot be set inside a transaction.
_NOT_LOCAL = ("application_name", "default_transaction", "tcp_")
_GRACE_SECONDS = 5.0
# Seconds for resetting or closing a connection, before it is dropped.
_PATIENCE = 5.0
_REMEDY = "raise database.pool_size or handler_pool_size, or let handlers hold theirs for less time"

Dial = Callable[[], Awaitable[Connection]]
# A waiting caller; its result is a session, or None: there is room to open one.
_Waiter: TypeAlias = "asyncio.Future[Session | None]"


class Pool:
    """At most `size` sessions, whose connections are opened when first needed and kept."""

    def __init__(
        self, dial: Dial, size: int, database: Database, preamble: str, remedy: str | None = None
    ) -> None:
        """preamble: SQL that begins each transaction. remedy: ends the error about a full pool."""
        self.preamble = preamble
        self._remedy = remedy or _REMEDY
        self._dial = dial
        self._size = size
        self._database = database
        self._sql = Statements(database.schema_name)
        self._open: set[Session] = set()
        # Places given to callers that are to open a connection, begun or not.
        self._opening = 0
        self._idle: list[Session] = []
        # Borrowed sessions whose prepared statements must be prepared again.
        self._void: set[Session] = set()
        self._waiters: deque[_Waiter] = deque()
        self._where = ""

    def where(self) -> str:
        """The database and the server of the newest connection; empty before the first one."""
        return self._where

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def used(self) -> int:
        return len(self._open) - len(self._idle)

    @property
    def wanted(self) -> bool:
        return any(not waiter.done() for waiter in self._waiters)

    async def acquire(self, within: float) -> Session:
        """Get a connection; waits at most `within` seconds for one. Raises DatabaseError."""
        session: Session | None
        while self._idle:
            session = self._idle.pop()
            if not session.connection.is_closed():
                return session
            self._open.discard(session)
        if self._has_room():
            self._opening += 1
        else:
            session = await self._stand_in_line(within)
            if session is not None:
                return session
        return await self._connect()

    async def release(self, session: Session, *, begun: bool = False) -> None:
        """A broken one is dropped. begun: the next transaction has begun, for a waiting caller."""
        connection = session.connection
        if session in self._void:
            self._void.discard(session)
            prepared.forget(connection)
        try:
            if not connection.is_closed():
                begun = begun and self.wanted
                is_as_said = connection.is_in_transaction() is begun
                if not is_as_said or _is_cancelling(connection) or _has_a_transaction(connection):
                    await _tidy(connection)
        finally:
            if connection.is_closed():
                self._open.discard(session)
                self._offer_room()
            elif not self._serve(session):
                self._idle.append(session)

    def prepare_anew(self) -> None:
        """Prepare all statements again: those of one session were found to be invalid."""
        self._void = self._open - {*self._idle}
        for session in self._idle:
            prepared.forget(session.connection)

    async def close(self) -> None:
        with anyio.move_on_after(_PATIENCE, shield=True):
            for session in self._idle:
                await session.connection.close()
        for session in self._open:
            session.connection.terminate()

    def _has_room(self) -> bool:
        return len(self._open) + self._opening < self._size

    def _offer_room(self) -> None:
        """Let the first waiting caller open a connection; its place is reserved."""
        if self._has_room() and self._serve(None):
            self._opening += 1

    async def _connect(self) -> Session:
        try:
            session = Session(await self._dial(), self._sql)
        except (*LOST, asyncpg.PostgresError) as error:
            raise explain_connecting(error, self._database) from error
        else:
            self._open.add(session)
            self._where = whereabouts(session.connection)
            return session
        finally:
            self._opening -= 1
            self._offer_room()

    async def _stand_in_line(self, within: float) -> Session | None:
        """The next returned connection; None: there is room to open one."""
        loop = asyncio.get_running_loop()
        waiter: _Waiter = loop.create_future()
        timer = loop.call_later(within, _expire, waiter, within, self._remedy)
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                session = waiter.result()
                if session is None:
                    self._opening -= 1
                    self._offer_room()
                else:
                    await self.release(session, begun=session.connection.is_in_transaction())
            raise
        finally:
            timer.cancel()

    def _serve(self, session: Session | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(session)
                return True
        return False


def _expire(waiter: _Waiter, within: float, remedy: str) -> None:
    if not waiter.done():
        waiter.set_exception(
            DatabaseError(f"no connection became free within {within:g} s; {remedy}")
        )


def _is_cancelling(connection: Connection) -> bool:
    """Whether the driver still waits for the server to finish a cancellation."""
    return connection._protocol._is_cancelling()  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001 - as the driver's own pool does


def _has_a_transaction(connection: Connection) -> bool:
    """Whether the driver holds a transaction for open; it may be one whose BEGIN was cancelled."""
    return connection._top_xact is not None  # type: ignore[attr-defined]  # noqa: SLF001 - as above


async def _tidy(connection: Connection) -> None:
    """Wait for a cancellation, and roll back; terminate a connection that does not respond."""
    try:
        with anyio.fail_after(_PATIENCE, shield=True):
            if _is_cancelling(connection):
                await connection._protocol._wait_for_cancellation(_PATIENCE)  # type: ignore[attr-defined]  # noqa: SLF001 - as above
            connection._top_xact = None  # type: ignore[attr-defined]  # noqa: SLF001 - as above
            if not connection.is_closed() and connection.is_in_transaction():
                await connection.execute("ROLLBACK")
    except (*LOST, asyncpg.PostgresError):
        connection.terminate()
    except BaseException:  # a handler's time limit cancels the task, which the shield cannot stop
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

    plans: OWN_PLANS for the daemon's statements; empty for handlers' sessions. remedy: as in Pool.
    """
    words = arguments(database, purpose, plans)
    # Longer than the server's limit: this only bounds the wait for a vanished server.
    words["command_timeout"] = database.statement_timeout.total_seconds() + _GRACE_SECONDS
    preamble = _preamble(database, plans)
    pool = Pool(partial(dial, database, **words), size, database, preamble, remedy)
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def borrow(pool: Pool, within: float = 30.0) -> AsyncIterator[Session]:
    """A session for statements, not in a transaction; waits for it at most `within` seconds."""
    async with lend(pool, within) as session:
        if pool.preamble:
            async with transaction(pool, session):
                yield session
        else:
            yield session


@asynccontextmanager
async def look_at(pool: Pool, within: float = 30.0) -> AsyncIterator[Session]:
    """For reads only. Behind a pooler, which has no read-only sessions, all run in one snapshot."""
    async with lend(pool, within) as session:
        if not pool.preamble:
            yield session
            return
        async with session.transaction(isolation="repeatable_read", readonly=True):
            try:
                await session.connection.execute(pool.preamble)
                yield session
            except TimeoutError:
                _give_up(session)
                raise


@asynccontextmanager
async def lend(pool: Pool, within: float = 30.0) -> AsyncIterator[Session]:
    """A session for several transactions: each begins and commits with `transaction`."""
    session = await pool.acquire(within)
    try:
        yield session
    except TimeoutError:
        _give_up(session)
        raise
    except VOID:
        pool.prepare_anew()
        raise
    finally:
        await pool.release(session)


@asynccontextmanager
async def transaction(pool: Pool, session: Session) -> AsyncIterator[None]:
    async with session.transaction(isolation="read_committed"):
        try:
            if pool.preamble:
                await session.connection.execute(pool.preamble)
            yield
        except TimeoutError:
            _give_up(session)
            raise


@asynccontextmanager
async def transact(pool: Pool) -> AsyncIterator[Session]:
    """A session in a transaction, which commits at the end."""
    async with lend(pool) as session, transaction(pool, session):
        yield session


def _give_up(session: Session) -> None:
    """Terminate the connection: a silent server would not answer a ROLLBACK either."""
    session.connection.terminate()


def _preamble(database: Database, plans: Mapping[str, str]) -> str:
    """Session settings as SQL for one transaction; empty if the session itself has them."""
    if not database.transaction_pooler:
        return ""
    settings = session_settings(database, "") | dict(plans)
    return "; ".join(
        f"SET LOCAL {name} = '{value}'"
        for name, value in settings.items()
        if not name.startswith(_NOT_LOCAL)
    )
