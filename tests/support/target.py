"""A target that commands call, outside the database: it keeps a log of calls, and a ledger.

    async with listening() as target:
        await target.send(database, 100)  # commands of type `test.remote`

Promises: the log has every call, even if the caller dies. A key takes effect once, as in any target
whose callers repeat a call after a lost answer.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.databases import Database
from tests.support.rows import send


@dataclass(frozen=True, slots=True)
class Called:
    """One call: the calling process, and the begin in seconds since the epoch."""

    key: str
    pid: int
    at: float
    was_up: bool
    alone: bool


@dataclass
class RemoteTarget:
    """The target. up: whether calls succeed. takes: the seconds of a call."""

    port: int = 0
    up: bool = True
    takes: float = 0.02
    calls: list[Called] = field(default_factory=list)
    # The number of effects of each key.
    ledger: Counter[str] = field(default_factory=Counter)
    _out: int = 0

    def of(self, pid: int) -> list[Called]:
        """The calls of one process."""
        return [call for call in self.calls if call.pid == pid]

    async def send(self, database: Database, count: int) -> list[int]:
        """Insert commands that call this target."""
        return await send(database, count, "test.remote", port=self.port)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one call to its end, even if the caller has gone."""
        try:
            key, pid = (await reader.readline()).decode().split()
            up = self.up
            self.calls.append(Called(key, int(pid), time.time(), up, alone=not self._out))
            self._out += 1
            try:
                await asyncio.sleep(self.takes)  # the target's work
            finally:
                self._out -= 1
            if up and not self.ledger[key]:
                self.ledger[key] += 1
            writer.write(b"done\n" if up else b"down\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[RemoteTarget]:
    """A target that listens on a port of its own."""
    target = RemoteTarget()
    server = await asyncio.start_server(target.answer, "127.0.0.1", 0)
    target.port = server.sockets[0].getsockname()[1]
    async with server:
        yield target
