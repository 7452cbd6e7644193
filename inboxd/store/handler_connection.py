"""The connection for a handler: opened on first use, closed when the handler ends.

Promises that a failing handler's effects are undone, and no others; that a reference kept beyond
the handler's end is unusable, and a statement that still runs on it is cancelled; that a call which
was never awaited fails the handler; and that no session state reaches the next event's handler.
Known limits: a handler that hides transaction control in nested comments commits its page's work so
far, and is then failed (`PageSavepoint.broken`). From a page's second use of the connection on,
deferrable constraints are deferred to the end of an event: SQL cannot restore INITIALLY IMMEDIATE.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from time import monotonic
from typing import Any, TypeAlias, TypeVar, cast

import anyio

from inboxd.api.connection import BlockingConnection
from inboxd.api.records import Executor
from inboxd.errors import UsageError
from inboxd.store import prepared
from inboxd.store.connections import VOID, Connection
from inboxd.store.handler_calls import Calls
from inboxd.store.pools import Pool
from inboxd.store.session import Session
from inboxd.store.statements import shared

T = TypeVar("T")
# The type of an `async` method's result: a coroutine to be awaited.
Answer: TypeAlias = Coroutine[Any, Any, T]

# Seconds for cancelling a statement or undoing a transaction, before its connection is dropped.
_PATIENCE_SECONDS = 5.0
# The handler's time limit bounds its statements; the pool's limit would be too short.
_LONGEST_SECONDS = 86_400.0
_ENDED = "the handler has ended; its connection cannot be used any more"
NOT_LEFT = "the handler closed the connection, or ended the transaction, that settles its row"
_LEFT = (
    "the handler ended while one of its statements was still running: await every statement "
    "before the handler returns"
)
# Resets a handler's session state. DISCARD ALL is refused in a transaction, and RESET ALL spares
# roles and locks. RESET ALL restores the settings that the daemon started the session with.
# Together 15 of the 80 µs of a used savepoint, in a round trip that is needed anyway.
_SESSION = (
    "CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; UNLISTEN *; DISCARD TEMP; "
)
# Advisory locks of the session, which a rollback does not release either.
_LOCKS = shared("unlock_session") + "; "
_CONTROL = re.compile(
    r"(?:^|;)\s*(?:begin|start|commit|end|abort|rollback|savepoint|release|prepare\s+transaction"
    r"|set\s+(?:session\s+)?(?:transaction|constraints))\b",
    re.IGNORECASE,
)
# Removed before the search: comments may hide those words, literals and function bodies may hold
# them.
_QUOTED = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL)


class LazyConnection:
    """`ctx.connection`: the driver's connection, limited to what a handler may do.

    Calls queue. Raises UsageError for transaction control, and after the handler has ended.
    """

    __slots__ = (
        *("_calls", "_connection", "_depth", "_idle_since", "_open", "_turn", "_under_way"),
        *("idle", "left", "prepares", "void"),
    )

    def __init__(self, open_: Callable[[], Awaitable[Connection]]) -> None:
        self._open: Callable[[], Awaitable[Connection]] | None = open_
        self._connection: Connection | None = None
        self._turn: asyncio.Lock | None = None
        self._under_way: asyncio.Task[Any] | None = None
        self._depth = 0
        self._calls = Calls()
        self._idle_since = 0.0
        self.left = False
        # Seconds: the longest time between two of its statements, or since the last one.
        self.idle = 0.0
        # Whether the handler may have prepared or deallocated statements.
        self.prepares = False
        # Whether a statement that the session had prepared was no longer valid.
        self.void = False

    def execute(self, query: str, *args: Any, timeout: float | None = None) -> Answer[str]:
        """Run a statement; returns the status, such as "INSERT 0 1"."""
        limit = timeout or _LONGEST_SECONDS
        return self._call("execute", query, lambda c: c.execute(query, *args, timeout=limit))

    def executemany(
        self, command: str, args: Iterable[Sequence[Any]], *, timeout: float | None = None
    ) -> Answer[None]:
        limit = timeout or _LONGEST_SECONDS
        return self._call(
            "executemany", command, lambda c: c.executemany(command, args, timeout=limit)
        )

    def fetch(self, query: str, *args: Any, timeout: float | None = None) -> Answer[Sequence[Any]]:
        limit = timeout or _LONGEST_SECONDS
        return self._call("fetch", query, lambda c: c.fetch(query, *args, timeout=limit))

    def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Answer[Any]:
        limit = timeout or _LONGEST_SECONDS
        return self._call("fetchrow", query, lambda c: c.fetchrow(query, *args, timeout=limit))

    def fetchval(
        self, query: str, *args: Any, column: int = 0, timeout: float | None = None
    ) -> Answer[Any]:
        limit = timeout or _LONGEST_SECONDS
        return self._call(
            "fetchval", query, lambda c: c.fetchval(query, *args, column=column, timeout=limit)
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A savepoint: if the block raises, its effects are undone together."""
        self._depth += 1
        savepoint = f"nested_{self._depth}"
        try:
            await self._do("", lambda c: c.execute(f"SAVEPOINT {savepoint}"))
            try:
                yield
            except BaseException:
                undo = f"ROLLBACK TO SAVEPOINT {savepoint}; RELEASE SAVEPOINT {savepoint}"
                with anyio.move_on_after(_PATIENCE_SECONDS, shield=True):
                    await self._do("", lambda c: c.execute(undo))
                raise
            await self._do("", lambda c: c.execute(f"RELEASE SAVEPOINT {savepoint}"))
        finally:
            self._depth -= 1

    def close(self) -> None:
        """End the handler's access: refuse later calls and cancel a running one (sets `left`)."""
        if self._connection is not None and self._under_way is None:
            self._end_idleness()
        self._open = None
        self._connection = None
        if self._under_way is not None:
            self.left = True
            self._under_way.cancel()

    def check(self) -> None:
        """Raise UsageError if the handler left a running statement, or a call without `await`."""
        if self.left:
            raise UsageError(_LEFT)
        self._calls.check()

    async def quiet(self) -> bool:
        """Wait, after `close`, for the running statement; False if it does not end in time."""
        if self._turn is None or not self._turn.locked():
            return True
        with anyio.move_on_after(_PATIENCE_SECONDS, shield=True):
            async with self._turn:
                return True
        return False

    def _call(
        self, method: str, query: str, operation: Callable[[Connection], Awaitable[T]]
    ) -> Answer[T]:
        self._calls.made += 1
        coroutine = self._do(query, operation, self._calls.made)
        self._calls.note(coroutine, method)
        return coroutine

    async def _do(
        self, query: str, operation: Callable[[Connection], Awaitable[T]], call: int = 0
    ) -> T:
        self._calls.begin(call)
        if _controls(query):
            raise UsageError(
                "ctx.connection is in the transaction that settles this row: its commit and "
                "rollback are not the handler's; for a savepoint use ctx.connection.transaction()"
            )
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            if self._open is None:
                raise UsageError(_ENDED)
            self._under_way = asyncio.current_task()
            connection = self._connection
            try:
                if connection is None:
                    connection = self._connection = await self._open()
                else:
                    self._end_idleness()
                return await operation(connection)
            except VOID:
                self.prepares = True
                # A handler that names prepared statements itself has its own failure.
                self.void = self.void or not prepared.has_words(query)
                raise
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self.left and task is not None and task.uncancel() == 0:
                    # Only `close` cancelled it: the task is the handler's, and may go on.
                    raise UsageError(_ENDED) from None
                raise
            finally:
                self._under_way = None
                self._idle_since = monotonic()
                self.prepares = self.prepares or prepared.has_words(query)
                # Also after a cancellation: the server may have run the statement.
                if self.prepares and connection is not None:
                    prepared.forget(connection)

    def _end_idleness(self) -> None:
        self.idle = max(self.idle, monotonic() - self._idle_since)


@lru_cache(maxsize=1024)
def _controls(query: str) -> bool:
    return _CONTROL.search(_QUOTED.sub("", query)) is not None


class _Part:
    __slots__ = ("_lazy",)

    def __init__(self) -> None:
        self._lazy: LazyConnection | None = None

    def lend(self) -> LazyConnection:
        """The handler's connection; its first statement opens the transaction or savepoint."""
        if self._lazy is None:
            self._lazy = LazyConnection(self._open)
        return self._lazy

    def lender(self, executor: Executor) -> Callable[[], Any]:
        """A function that returns the connection for a handler; a blocking one for a thread."""
        if executor == "thread":
            return lambda: BlockingConnection(self.lend())
        return self.lend

    @property
    def void(self) -> bool:
        """Whether a prepared statement was no longer valid, which is not the handler's fault."""
        return self._lazy is not None and self._lazy.void

    @property
    def idle(self) -> float:
        """Seconds: the longest time that the handler left its transaction idle."""
        return 0.0 if self._lazy is None else self._lazy.idle

    @property
    def _tidying(self) -> str:
        """SQL that resets state which a rollback does not reset."""
        own = self._lazy is not None and self._lazy.prepares
        return f"{_LOCKS}{prepared.DEALLOCATE}" if own else _LOCKS

    def close(self) -> None:
        if self._lazy is not None:
            self._lazy.close()

    def check(self) -> None:
        if self._lazy is not None:
            self._lazy.check()

    async def _open(self) -> Connection:
        raise NotImplementedError


class PageSavepoint(_Part):
    __slots__ = ("_page", "_preamble", "_sql", "used")

    def __init__(self, page: Session, preamble: str) -> None:
        """Serve one event; preamble: SQL with which the transaction on `page` began, or ""."""
        super().__init__()
        self._page = page.connection
        self._sql = page.sql
        self._preamble = preamble
        self.used = False

    @property
    def broken(self) -> bool:
        """Whether the handler closed the page's connection, or ended its transaction."""
        return self.used and (self._page.is_closed() or not self._page.is_in_transaction())

    def session(self) -> Session:
        """The handler's connection with inboxd's statements, which then have the handler's role."""
        return Session(cast("Connection", self.lend()), self._sql)

    async def keep(self) -> None:
        """Keep the handler's effects. Raises UsageError if it left a statement unfinished.

        Checks deferred constraints now: a violation fails this handler and not the page.
        """
        await self._leave("SET CONSTRAINTS ALL DEFERRED; RELEASE SAVEPOINT handler")

    async def tidy(self) -> None:
        """Reset the session before `keep`, if other statements come in between."""
        await self._leave("SET CONSTRAINTS ALL DEFERRED")

    async def _leave(self, then: str) -> None:
        if self._lazy is None:
            return
        self._lazy.close()
        self._lazy.check()
        if self.used:
            await self._page.execute(
                f"SET CONSTRAINTS ALL IMMEDIATE; {_SESSION}{self._tidying}{self._preamble}; {then}"
            )

    async def undo(self) -> None:
        """Undo the handler's effects; drops the connection if that fails (`broken`)."""
        await self.abandon()
        if not self.used or self.broken:
            return
        try:
            with anyio.fail_after(_PATIENCE_SECONDS):
                await self._page.execute(
                    f"ROLLBACK TO SAVEPOINT handler; {self._tidying}RELEASE SAVEPOINT handler"
                )
        except Exception:  # noqa: BLE001 - after any error the page must not go on like this
            if not self._page.is_closed():
                self._page.terminate()

    async def abandon(self) -> None:
        """When the page ends: make sure that no statement of the handler runs on its connection."""
        if self._lazy is None:
            return
        self._lazy.close()
        if not await self._lazy.quiet() and not self._page.is_closed():
            self._page.terminate()

    async def _open(self) -> Connection:
        self.used = True
        await self._page.execute("SAVEPOINT handler")
        return self._page


class OwnTransaction(_Part):
    """on_waited gets the seconds of the wait for a connection. starved: it waits still."""

    __slots__ = ("_on_waited", "_pool", "_within", "held", "starved")

    def __init__(
        self, pool: Pool, within: float, on_waited: Callable[[float], None] = lambda _seconds: None
    ) -> None:
        super().__init__()
        self._pool = pool
        self._within = within
        self._on_waited = on_waited
        self.held: Session | None = None
        self.starved = False

    def check(self) -> None:
        """Raise UsageError unless the transaction can still settle the row."""
        super().check()
        held = self.held
        if held is not None and (
            held.connection.is_closed() or not held.connection.is_in_transaction()
        ):
            raise UsageError(NOT_LEFT)

    async def commit(self, settle: Callable[[Session, str], Awaitable[None]]) -> None:
        """`settle` gets SQL that ends the transaction; then the connection is released.

        The session is reset after deferred triggers, before the commit, in one round trip.
        """
        held, chain = self.held, self._pool.wanted
        if held is None:
            return
        begin = f"; BEGIN; {self._pool.preamble}" if chain else ""
        tidying = f"{_SESSION}{self._tidying}"
        await settle(held, f"SET CONSTRAINTS ALL IMMEDIATE; {tidying}COMMIT{begin}")
        self.held = None
        await self._pool.release(held, begun=chain)

    async def end(self) -> None:
        if self._lazy is None:
            return
        self._lazy.close()
        await self._lazy.quiet()
        session, self.held = self.held, None
        if session is None:
            return
        orderly, held = False, session.connection
        with anyio.CancelScope(shield=True):
            try:
                # If the handler left the transaction, the session may be in any state.
                if not held.is_closed() and held.is_in_transaction():
                    with suppress(Exception), anyio.fail_after(_PATIENCE_SECONDS):
                        await held.execute(f"ROLLBACK; {self._tidying}")
                        orderly = True
            finally:
                if not (orderly or held.is_closed()):
                    held.terminate()  # its state is unknown, so it must not be used again
                await self._pool.release(session)

    async def _open(self) -> Connection:
        self.starved = True
        if self.held is None:  # else this is a second try, after a cancelled first one
            asked_at = monotonic()
            self.held = await self._pool.acquire(self._within)
            self._on_waited(monotonic() - asked_at)
        connection = self.held.connection
        if not connection.is_in_transaction():  # else `commit` has begun one already
            await connection.execute(f"BEGIN; {self._pool.preamble}")
        self.starved = False
        return connection
