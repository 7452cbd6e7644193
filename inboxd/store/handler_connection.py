"""The connection that a handler sees: opened on first use, closed when the handler ends.

Owns the two ways in which a handler takes part in a transaction: a savepoint in the page of events
(`PageSavepoint`), or a transaction of the command's own (`OwnTransaction`). Promises that a handler
that never asks costs nothing; that one handler's failure undoes its own effects alone; that a
reference kept beyond the handler's end is dead, and what still runs on it is cancelled; that what
it called and never awaited is its failure; and that no session state of one event's handler reaches
the next event. Known limits: transaction control is recognised by its words at the start of a
statement; a handler that hides it (in nested comments) commits what its page did so far, and is
itself found and failed (`PageSavepoint.broken`). From a page's second use of the connection on,
every deferrable constraint is deferred to the end of its event, also one that was declared
INITIALLY IMMEDIATE: SQL has no way back to what was declared.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import anyio

from inboxd.api.connection import BlockingConnection
from inboxd.api.records import Executor
from inboxd.errors import UsageError
from inboxd.store import prepared
from inboxd.store.connections import VOID, Connection
from inboxd.store.handler_calls import Calls
from inboxd.store.pools import Pool
from inboxd.store.statements import shared

T = TypeVar("T")
# What a method gives, as one that is declared `async` does: it is to be awaited.
Answer: TypeAlias = Coroutine[Any, Any, T]

# Seconds that a cancelled statement, or an undoing one, may take before its connection is dropped.
_PATIENCE = 5.0
# The handler's own time limit bounds its statements; the pool's would end a longer one too early.
_LONGEST = 86_400.0
_ENDED = "the handler has ended; its connection cannot be used any more"
NOT_LEFT = "it closed the connection, or ended the transaction, that settles it"
_LEFT = (
    "the handler ended while a statement of its own was still under way: await what it starts, "
    "so that nothing outlives it"
)
# What a handler may have left in the session, in the server's own words. DISCARD ALL and RESET ALL
# alone do not do: the one is refused in a transaction, the other spares roles and locks. RESET ALL
# goes back to what the session was started with, which the daemon gave. Together 15 microseconds of
# the 80 that a used savepoint costs (in the round trip that there is anyway).
_SESSION = (
    "CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; UNLISTEN *; DISCARD TEMP; "
)
# Nor does a rollback give these back.
_LOCKS = shared("unlock_session") + "; "
_CONTROL = re.compile(
    r"(?:^|;)\s*(?:begin|start|commit|end|abort|rollback|savepoint|release|prepare\s+transaction"
    r"|set\s+(?:session\s+)?(?:transaction|constraints))\b",
    re.IGNORECASE,
)
# Comments may hide those words; literals, quoted names and functions' bodies only seem to say them.
_QUOTED = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL)


class LazyConnection:
    """What `ctx.connection` is: the driver's connection behind the handler's own bounds.

    Operations of several tasks or threads queue: a connection does one at a time. Raises UsageError
    for transaction control, and once the handler has ended.
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
        # The longest time between two of its statements, or after the last one, in seconds.
        self.idle = 0.0
        # Whether it may have prepared or deallocated statements.
        self.prepares = False
        # Whether it met a statement that the session had prepared, and that does not fit any more.
        self.void = False

    def execute(self, query: str, *args: Any, timeout: float | None = None) -> Answer[str]:
        """Run a statement; the status, such as "INSERT 0 1"."""
        limit = timeout or _LONGEST
        return self._call("execute", query, lambda c: c.execute(query, *args, timeout=limit))

    def executemany(
        self, command: str, args: Iterable[Sequence[Any]], *, timeout: float | None = None
    ) -> Answer[None]:
        """Run a statement once for each sequence of parameters."""
        limit = timeout or _LONGEST
        return self._call(
            "executemany", command, lambda c: c.executemany(command, args, timeout=limit)
        )

    def fetch(self, query: str, *args: Any, timeout: float | None = None) -> Answer[Sequence[Any]]:
        """All rows."""
        limit = timeout or _LONGEST
        return self._call("fetch", query, lambda c: c.fetch(query, *args, timeout=limit))

    def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Answer[Any]:
        """The first row, or None."""
        limit = timeout or _LONGEST
        return self._call("fetchrow", query, lambda c: c.fetchrow(query, *args, timeout=limit))

    def fetchval(
        self, query: str, *args: Any, column: int = 0, timeout: float | None = None
    ) -> Answer[Any]:
        """A value of the first row, or None where there is no row."""
        limit = timeout or _LONGEST
        return self._call(
            "fetchval", query, lambda c: c.fetchval(query, *args, column=column, timeout=limit)
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A savepoint: what happens inside is undone together if the block raises."""
        self._depth += 1
        savepoint = f"nested_{self._depth}"
        try:
            await self._do("", lambda c: c.execute(f"SAVEPOINT {savepoint}"))
            try:
                yield
            except BaseException:
                undo = f"ROLLBACK TO SAVEPOINT {savepoint}; RELEASE SAVEPOINT {savepoint}"
                with anyio.move_on_after(_PATIENCE, shield=True):
                    await self._do("", lambda c: c.execute(undo))
                raise
            await self._do("", lambda c: c.execute(f"RELEASE SAVEPOINT {savepoint}"))
        finally:
            self._depth -= 1

    def close(self) -> None:
        """The handler ended: refuse what comes, and cancel what is under way (`left` says so)."""
        if self._connection is not None and self._under_way is None:
            self._end_idleness()
        self._open = None
        self._connection = None
        if self._under_way is not None:
            self.left = True
            self._under_way.cancel()

    def check(self) -> None:
        """Raise UsageError if the handler left something unfinished, or never began it."""
        if self.left:
            raise UsageError(_LEFT)
        self._calls.check()

    async def quiet(self) -> bool:
        """Wait, after `close`, until nothing is under way any more; False if it does not end."""
        if self._turn is None or not self._turn.locked():
            return True
        with anyio.move_on_after(_PATIENCE, shield=True):
            async with self._turn:
                return True
        return False

    def _call(
        self, method: str, query: str, operation: Callable[[Connection], Awaitable[T]]
    ) -> Answer[T]:
        """What the handler is to await."""
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
                # Of its own names it knows more than the session.
                self.void = self.void or not prepared.has_words(query)
                raise
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self.left and task is not None and task.uncancel() == 0:
                    # By `close` alone: the task is the handler's own, and may have more to do.
                    raise UsageError(_ENDED) from None
                raise
            finally:
                self._under_way = None
                self._idle_since = monotonic()
                self.prepares = self.prepares or prepared.has_words(query)
                # Also when `close` has cancelled it: the server may have done it all the same.
                if self.prepares and connection is not None:
                    prepared.forget(connection)

    def _end_idleness(self) -> None:
        self.idle = max(self.idle, monotonic() - self._idle_since)


@lru_cache(maxsize=1024)
def _controls(query: str) -> bool:
    """Whether the text has words of transaction control where a statement begins."""
    return _CONTROL.search(_QUOTED.sub("", query)) is not None


class _Part:
    """A handler's part in a transaction, whose connection it is lent."""

    __slots__ = ("_lazy",)

    def __init__(self) -> None:
        self._lazy: LazyConnection | None = None

    def lend(self) -> LazyConnection:
        """The row's connection; its first statement opens it, or the savepoint."""
        if self._lazy is None:
            self._lazy = LazyConnection(self._open)
        return self._lazy

    def lender(self, executor: Executor) -> Callable[[], Any]:
        """What gives a handler this connection: one that blocks, if it runs in a thread."""
        if executor == "thread":
            return lambda: BlockingConnection(self.lend())
        return self.lend

    @property
    def void(self) -> bool:
        """Whether the handler met a prepared statement that did not fit: not its own fault."""
        return self._lazy is not None and self._lazy.void

    @property
    def idle(self) -> float:
        """The longest time that its transaction stood idle for the handler, in seconds."""
        return 0.0 if self._lazy is None else self._lazy.idle

    @property
    def _tidying(self) -> str:
        """What gives back what a rollback does not."""
        own = self._lazy is not None and self._lazy.prepares
        return f"{_LOCKS}{prepared.DEALLOCATE}" if own else _LOCKS

    def close(self) -> None:
        """The handler ended: its connection is not its any more."""
        if self._lazy is not None:
            self._lazy.close()

    def check(self) -> None:
        """Raise UsageError if the handler left something unfinished, or never began it."""
        if self._lazy is not None:
            self._lazy.check()

    async def _open(self) -> Connection:
        raise NotImplementedError


class PageSavepoint(_Part):
    """A handler's part in its page's transaction."""

    __slots__ = ("_page", "_preamble", "used")

    def __init__(self, page: Connection, preamble: str) -> None:
        """Serve one event of the transaction on `page`, which began with `preamble`, if any."""
        super().__init__()
        self._page = page
        self._preamble = preamble
        self.used = False

    @property
    def broken(self) -> bool:
        """Whether the handler closed the page's connection, or ended its transaction."""
        return self.used and (self._page.is_closed() or not self._page.is_in_transaction())

    async def keep(self) -> None:
        """Keep what the handler did. Raises UsageError if it has not ended doing it.

        Deferred constraints are checked now, so that a violation is this handler's and not the
        page's; then they are deferred again for the next.
        """
        await self._leave("SET CONSTRAINTS ALL DEFERRED; RELEASE SAVEPOINT handler")

    async def tidy(self) -> None:
        """Take back what it left in the session, before `keep`: other statements come first."""
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
        """Undo what the handler did; a connection on which that fails is dropped (`broken`)."""
        await self.abandon()
        if not self.used or self.broken:
            return
        try:
            with anyio.fail_after(_PATIENCE):
                await self._page.execute(
                    f"ROLLBACK TO SAVEPOINT handler; {self._tidying}RELEASE SAVEPOINT handler"
                )
        except Exception:  # noqa: BLE001 - whatever it was, the page must not go on like this
            if not self._page.is_closed():
                self._page.terminate()

    async def abandon(self) -> None:
        """The page ends here: see that nothing of the handler's runs on its connection."""
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
    """A command's own transaction, on a connection from the handlers' pool.

    on_waited gets how many seconds the handler waited for its connection, which is not its fault.
    starved: it asked for its connection and did not get it (yet).
    """

    __slots__ = ("_on_waited", "_pool", "_within", "held", "starved")

    def __init__(
        self, pool: Pool, within: float, on_waited: Callable[[float], None] = lambda _seconds: None
    ) -> None:
        super().__init__()
        self._pool = pool
        self._within = within
        self._on_waited = on_waited
        self.held: Connection | None = None
        self.starved = False

    def check(self) -> None:
        """Raise UsageError if the handler has not left a transaction that can settle its row."""
        super().check()
        held = self.held
        if held is not None and (held.is_closed() or not held.is_in_transaction()):
            raise UsageError(NOT_LEFT)

    async def commit(self, settle: Callable[[Connection, str], Awaitable[None]]) -> None:
        """Let `settle` write the settlement, with what ends the transaction behind it; give back.

        The session is put back in order before the commit, in the same round trip; deferred
        triggers run before that, so that they still see what the handler set.
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
        """Undo what was not committed, and give the connection back."""
        if self._lazy is None:
            return
        self._lazy.close()
        await self._lazy.quiet()
        held, self.held = self.held, None
        if held is None:
            return
        orderly = False
        with anyio.CancelScope(shield=True):
            try:
                # One that the handler brought out of its transaction may be in any state.
                if not held.is_closed() and held.is_in_transaction():
                    with suppress(Exception), anyio.fail_after(_PATIENCE):
                        await held.execute(f"ROLLBACK; {self._tidying}")
                        orderly = True
            finally:
                if not (orderly or held.is_closed()):
                    held.terminate()  # whatever is wrong with it, it must not be used again
                await self._pool.release(held)

    async def _open(self) -> Connection:
        self.starved = True
        if self.held is None:  # not the second try of a handler whose first was cancelled
            asked_at = monotonic()
            self.held = await self._pool.acquire(self._within)
            self._on_waited(monotonic() - asked_at)
        if not self.held.is_in_transaction():  # else it was handed on with one begun
            await self.held.execute(f"BEGIN; {self._pool.preamble}")
        self.starved = False
        return self.held
