"""Connections that are kept for the next statement of a test, per event loop.

    async with connections.borrow() as connection:
        await connection.fetch("select 1")

A new connection costs the server a process, and many tests repeat one query again and again.
Promises: a borrowed connection has one user, a lost one is not lent again, and all are closed when
their loop ends, before the database is dropped.
"""

import asyncio
import select
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import asyncpg

from tests.support.waiting import patient

_Idle: TypeAlias = list[asyncpg.Connection]
_Keeper: TypeAlias = AsyncGenerator[_Idle]


class KeptConnections:
    """The idle connections to one database, by event loop."""

    def __init__(self, dsn: str) -> None:
        """Keep connections to the database at `dsn`."""
        self._dsn = dsn
        # The generator is kept too: a loop closes only generators that are still referenced.
        self._of: dict[asyncio.AbstractEventLoop, tuple[_Keeper, _Idle]] = {}

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection for one statement; it is closed if the statement fails."""
        idle = await self._of_this_loop()
        while idle and _is_lost(idle[-1]):
            idle.pop().terminate()
        if idle:
            connection = idle.pop()
        else:  # statements are not prepared: tables may change between two of them
            connection = await asyncpg.connect(
                self._dsn, timeout=patient(10), statement_cache_size=0
            )
        try:
            yield connection
        except BaseException:
            connection.terminate()
            raise
        idle.append(connection)

    async def close(self) -> None:
        """Close this loop's connections; the server writes a session's statistics when it ends."""
        idle = await self._of_this_loop()
        while idle:
            idle.pop().terminate()

    async def _of_this_loop(self) -> _Idle:
        loop = asyncio.get_running_loop()
        if loop not in self._of:
            keeper = _keep()
            self._of[loop] = keeper, await anext(keeper)
        return self._of[loop][1]


def _is_lost(connection: asyncpg.Connection) -> bool:
    """Whether the server has closed it, even if this loop has not read that yet."""
    if connection.is_closed():
        return True
    transport: asyncio.Transport = getattr(connection, "_transport")  # noqa: B009 - its types have none
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))


async def _keep() -> _Keeper:
    """Own the idle connections: a loop that ends closes its generators, and this closes them."""
    idle: _Idle = []
    try:
        yield idle
    finally:
        for connection in idle:
            connection.terminate()
