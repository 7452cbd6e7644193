"""The connection that a handler sees: opened on first use, closed when the handler ends.

Owns the two ways in which a handler takes part in a transaction: a savepoint in the page of events
(`PageSavepoint`), or a transaction of the command's own (`OwnTransaction`). Promises that a handler
that never asks costs nothing, that one handler's failure undoes its own effects alone, and that a
reference kept beyond the handler's end is dead. Known limit: transaction control is recognised by
its words at the start of a statement; a handler that hides it (in nested comments) commits what its
page did so far, and is itself found and failed (`PageSavepoint.broken`).
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from inboxd.errors import UsageError
from inboxd.store.connections import Connection, is_closed
from inboxd.store.pools import Pool

_CONTROL = re.compile(
    r"(?:^|;)\s*(?:begin|start|commit|end|abort|rollback|savepoint|release|prepare\s+transaction"
    r"|set\s+(?:session\s+)?(?:transaction|constraints))\b",
    re.IGNORECASE,
)
# Comments may hide those words; literals, quoted names and functions' bodies only seem to say them.
_QUOTED = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL)


class LazyConnection:
    """What `ctx.connection` is: the driver's connection behind the handler's own bounds.

    Raises UsageError for transaction control, and once the handler has ended.
    """

    __slots__ = ("_connection", "_depth", "_lock", "_open")

    def __init__(self, open_: Callable[[], Awaitable[Connection]]) -> None:
        self._open: Callable[[], Awaitable[Connection]] | None = open_
        self._connection: Connection | None = None
        self._lock: anyio.Lock | None = None
        self._depth = 0

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """Run a statement; the status, such as "INSERT 0 1"."""
        connection = await self._checked(query)
        return await connection.execute(query, *args, timeout=timeout)

    async def executemany(
        self, command: str, args: Iterable[Sequence[Any]], *, timeout: float | None = None
    ) -> None:
        """Run a statement once for each sequence of parameters."""
        connection = await self._checked(command)
        await connection.executemany(command, args, timeout=timeout)

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> Sequence[Any]:
        """All rows."""
        connection = await self._checked(query)
        return await connection.fetch(query, *args, timeout=timeout)

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """The first row, or None."""
        connection = await self._checked(query)
        return await connection.fetchrow(query, *args, timeout=timeout)

    async def fetchval(
        self, query: str, *args: Any, column: int = 0, timeout: float | None = None
    ) -> Any:
        """A value of the first row, or None where there is no row."""
        connection = await self._checked(query)
        return await connection.fetchval(query, *args, column=column, timeout=timeout)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A savepoint: what happens inside is undone together if the block raises."""
        connection = await self._checked("")
        self._depth += 1
        savepoint = f"nested_{self._depth}"
        await connection.execute(f"SAVEPOINT {savepoint}")
        try:
            yield
        except BaseException:
            with anyio.move_on_after(5, shield=True):
                await connection.execute(
                    f"ROLLBACK TO SAVEPOINT {savepoint}; RELEASE SAVEPOINT {savepoint}"
                )
            raise
        else:
            await connection.execute(f"RELEASE SAVEPOINT {savepoint}")
        finally:
            self._depth -= 1

    def close(self) -> None:
        """The handler ended."""
        self._open = None
        self._connection = None

    async def _checked(self, query: str) -> Connection:
        if _CONTROL.search(_QUOTED.sub("", query)):
            raise UsageError(
                "ctx.connection is in the transaction that settles this row: its commit and "
                "rollback are not the handler's; for a savepoint use ctx.connection.transaction()"
            )
        if self._connection is not None:
            return self._connection
        if self._lock is None:
            self._lock = anyio.Lock()
        async with self._lock:  # two tasks of one handler may be first together
            if self._open is None:
                raise UsageError("the handler has ended; its connection cannot be used any more")
            if self._connection is None:
                self._connection = await self._open()
            return self._connection


class PageSavepoint:
    """A handler's part in its page's transaction."""

    __slots__ = ("_page", "connection", "used")

    def __init__(self, page: Connection) -> None:
        self._page = page
        self.used = False
        self.connection = LazyConnection(self._open)

    @property
    def broken(self) -> bool:
        """Whether the handler closed the page's connection, or ended its transaction."""
        return self.used and (is_closed(self._page) or not self._page.is_in_transaction())

    async def keep(self) -> None:
        """Keep what the handler did.

        Deferred constraints are checked now, so that a violation is this handler's and not the
        page's; then they are deferred again for the next.
        """
        self.connection.close()
        if self.used:
            await self._page.execute(
                "SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT handler; "
                "SET CONSTRAINTS ALL DEFERRED"
            )

    async def undo(self) -> None:
        """Undo what the handler did."""
        self.connection.close()
        if self.used:
            await self._page.execute("ROLLBACK TO SAVEPOINT handler; RELEASE SAVEPOINT handler")

    async def _open(self) -> Connection:
        await self._page.execute("SAVEPOINT handler")
        self.used = True
        return self._page


class OwnTransaction:
    """A command's own transaction, on a connection from the handlers' pool."""

    __slots__ = ("_pool", "_within", "connection", "held")

    def __init__(self, pool: Pool, within: float) -> None:
        self._pool = pool
        self._within = within
        self.held: Connection | None = None
        self.connection = LazyConnection(self._open)

    @property
    def broken(self) -> bool:
        """Whether the handler closed the connection, or ended the transaction."""
        held = self.held
        return held is not None and (is_closed(held) or not held.is_in_transaction())

    async def end(self) -> None:
        """Undo what was not committed, and give the connection back."""
        self.connection.close()
        held, self.held = self.held, None
        if held is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                if not is_closed(held) and held.is_in_transaction():
                    with anyio.fail_after(5):
                        await held.execute("ROLLBACK")
            except Exception:  # noqa: BLE001 - whatever is wrong with it, it must not be used again
                if not is_closed(held):
                    held.terminate()
            await self._pool.release(held)

    async def _open(self) -> Connection:
        held = await self._pool.acquire(self._within)
        self.held = held
        await held.execute(f"BEGIN; {self._pool.preamble}")
        return held
