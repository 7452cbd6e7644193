"""A TCP proxy before PostgreSQL that cuts or swallows the connections of one purpose.

Knows a connection by the `application_name` of its start-up message, so that a test can hurt the
listener and leave the others alone. Known limit: no TLS; the DSN must say sslmode=disable.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

import anyio
from anyio.abc import ByteStream, SocketAttribute

_SWALLOWED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: ByteStream, server: ByteStream, greeting: bytes) -> None:
        self.greeting = greeting
        self.ends = (client, server)
        self.swallows = False

    async def pump(self, source: ByteStream, target: ByteStream) -> None:
        with suppress(*_SWALLOWED):
            async for data in source:
                if not self.swallows:
                    await target.send(data)
        if not self.swallows:
            await self.cut()

    async def cut(self) -> None:
        for end in self.ends:
            with suppress(*_SWALLOWED):
                await anyio.aclose_forcefully(end)


class Proxy:
    """Forwards until told otherwise; `dsn` is the way through it."""

    def __init__(self, dsn: str, port: int) -> None:
        """Stand before the server of `dsn`, on `port` of loopback."""
        parts = urlsplit(dsn)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        user = f"{parts.username}@" if parts.username else ""
        self.dsn = urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}"))
        self.dsn += "?sslmode=disable"
        self._links: list[_Link] = []

    async def serve(self, client: ByteStream) -> None:
        """Forward one connection until either side ends it."""
        with suppress(*_SWALLOWED):
            greeting = await client.receive()
            server = await anyio.connect_tcp(*self._target)
            link = _Link(client, server, greeting)
            self._links.append(link)
            await server.send(greeting)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(link.pump, client, server)
                tasks.start_soon(link.pump, server, client)

    async def cut(self, purpose: str) -> int:
        """Close the connections whose application name ends so; how many there were."""
        found = self._take(purpose)
        for link in found:
            await link.cut()
        return len(found)

    def swallow(self, purpose: str) -> int:
        """Let these connections stay open and pass nothing on; how many there were."""
        found = self._take(purpose)
        for link in found:
            link.swallows = True
        return len(found)

    def _take(self, purpose: str) -> list[_Link]:
        name = f" {purpose}\0".encode()
        found = [link for link in self._links if name in link.greeting]
        self._links = [link for link in self._links if link not in found]
        return found


@asynccontextmanager
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    """A running proxy before the server of `dsn`."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        running = Proxy(dsn, listener.extra(SocketAttribute.local_port))  # noqa: S610 - no Django here
        tasks.start_soon(listener.serve, running.serve)
        yield running
        tasks.cancel_scope.cancel()
