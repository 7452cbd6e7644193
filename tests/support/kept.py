"""Connections that are kept from one statement of a test to its next, in the same event loop.

To open one costs the server a process: many tests ask for the same thing again and again.
Promises: nobody else uses a connection that is lent, one that was lost is not lent again, and
all are closed when their loop ends, before the database is dropped.
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
    """The connections to one database that nobody uses just now, by event loop."""

    def __init__(self, dsn: str) -> None:
        """Keep connections to the database at `dsn`."""
        self._dsn = dsn
        # The generator is kept, too: a loop closes those alone that are still there.
        self._of: dict[asyncio.AbstractEventLoop, tuple[_Keeper, _Idle]] = {}

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection for one statement; not kept when that fails."""
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
        """End those of this loop: at its end, at the latest, the server counts what one did."""
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
    """Whether the server has ended it, also where this loop has not read so yet."""
    if connection.is_closed():
        return True
    transport: asyncio.Transport = getattr(connection, "_transport")  # noqa: B009 - its types have none
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))


async def _keep() -> _Keeper:
    """Idle connections; a loop that ends closes its generators, and this one them."""
    idle: _Idle = []
    try:
        yield idle
    finally:
        for connection in idle:
            connection.terminate()
