"""A target that misbehaves on demand: a raw HTTP/1.1 server, controlled by paths or a plan.

    async with Target() as target:
        target.plan.append("/silent")  # for the next request, whatever its path
        await call(target.url("/status/503"))

As a process: `python -m tests.support.http_target --port 0 --control 0` prints both ports as JSON.
A line of JSON to the control port changes it (`{"plan": ["/status/503", "/ok"]}`, `{"down": true}`:
it stops listening, `{"forget": true}`); the answer is a line with the requests seen.

The paths are the methods of `_Behaviours`: `/status/429?retry-after=7`, `/drip?every=0.1`.
"""

import argparse
import asyncio
import contextlib
import itertools
import ssl
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import orjson

from tests.support.waiting import WITHIN, bounded


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that arrived whole. connection: its number."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int


class Target:
    """The server, on loopback. seen: the requests; open: the number of open connections."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._changed = asyncio.Condition()
        self._numbers = itertools.count(1)
        self.plan = deque[str]()
        self.seen: list[Seen] = []
        self.connections = 0
        self.open = 0
        self.sent = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def url(self, path: str = "/ok", host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    async def start(self, port: int = 0) -> None:
        """Listen; after `stop`, at the same port again."""
        self._server = await asyncio.start_server(
            self._accepted, "127.0.0.1", port or self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close all connections, and stop listening."""
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def until(self, holds: Callable[[], bool], within: float = WITHIN) -> None:
        """Wait until `holds` returns true; it is called after each change."""
        with bounded(within):
            async with self._changed:
                await self._changed.wait_for(holds)

    async def changed(self) -> None:
        """Wake the tasks that wait in `until`."""
        async with self._changed:
            self._changed.notify_all()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        await self.changed()
        try:
            await self._serve(reader, writer, next(self._numbers))
        except (OSError, EOFError, RuntimeError, asyncio.CancelledError):
            pass  # the client closed (uvloop: RuntimeError), or the server stops
        finally:
            self._tasks.discard(task)
            self.open -= 1
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self.changed()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        while True:
            request = await _read(reader, number)
            self.seen.append(request)
            await self.changed()
            behaviours = _Behaviours(self, reader, writer, request)
            if not await behaviours.do(self.plan.popleft() if self.plan else request.path):
                return


async def _read(reader: asyncio.StreamReader, number: int) -> Seen:
    """Read the next request. Raises EOFError."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, path, headers, body, number)


class _Behaviours:
    """Handles one request. Each method returns whether the connection is kept."""

    def __init__(
        self,
        target: Target,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        request: Seen,
    ) -> None:
        self._target = target
        self._reader = reader
        self._writer = writer
        self._request = request
        self._argument = ""
        self._options: dict[str, str] = {}

    async def do(self, path: str) -> bool:
        """Call the method that the path names: `/NAME/ARGUMENT?OPTIONS`."""
        parts = urlsplit(path)
        name, _, self._argument = parts.path.strip("/").partition("/")
        self._options = dict(parse_qsl(parts.query, keep_blank_values=True))
        behaviour: Callable[[], Awaitable[bool]] = getattr(self, f"_{name}", self._ok)
        return await behaviour()

    async def _ok(self) -> bool:
        """Answer 200; `?body=`, `?size=` bytes of x."""
        body = self._options.get("body", "ok").encode() or b""
        if "size" in self._options:
            body = b"x" * int(self._options["size"])
        return await self._answer(200, body)

    async def _status(self) -> bool:
        """`/status/503?retry-after=7&location=...`: options are headers, `body` the body."""
        body = self._options.pop("body", "").encode()
        return await self._answer(int(self._argument), body, self._options)

    async def _echo(self) -> bool:
        """Answer 200 with the request's headers and body, as JSON."""
        said = {
            "headers": dict(self._request.headers),
            "body": self._request.body.decode("latin-1"),
        }
        head = {"x-request-id": self._request.headers.get("authorization", "-")}
        return await self._answer(200, orjson.dumps(said), head)

    async def _cookie(self) -> bool:
        return await self._answer(200, b"", {"set-cookie": "session=1; Path=/"})

    async def _slow(self) -> bool:
        """Answer 200 after `?after=` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(float(self._options.get("after", "60"))):
                await self._reader.read()
                return False  # the client closed
        return await self._answer(200, b"slow")

    async def _silent(self) -> bool:
        """Send nothing until the client closes."""
        await self._reader.read()
        return False

    async def _drip(self) -> bool:
        """Send a body byte by byte, without end; `/drip/head`: send the head so."""
        every = float(self._options.get("every", "0.02"))
        head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n"
        start = head if self._argument == "head" else f"{head}\r\n"
        await self._send(start.encode())
        for number in itertools.count():
            await self._send(f"x-{number}: 1\r\n".encode() if self._argument == "head" else b"x")
            await asyncio.sleep(every)
        return False

    async def _endless(self) -> bool:
        """Send a body without end: in chunks, or `/endless/length` with a huge length."""
        framed = "content-length: 1000000000000" if self._argument else "transfer-encoding: chunked"
        await self._send(f"HTTP/1.1 200 OK\r\n{framed}\r\n\r\n".encode())
        block = b"y" * 65536
        part = block if self._argument else b"%x\r\n%b\r\n" % (len(block), block)
        while True:
            await self._send(part)

    async def _reset(self) -> bool:
        """Reset before the head; `/reset/head` within the head, `/reset/body` within the body."""
        if self._argument:
            await self._send(b"HTTP/1.1 200 OK\r\ncontent-le")
        if self._argument == "body":
            await self._send(b"ngth: 100\r\n\r\nbegun")
        self._writer.transport.abort()
        return False

    async def _close(self) -> bool:
        """Close without an answer; `/close/after`: promise to keep the connection, but close it."""
        if self._argument:
            await self._answer(200, b"ok")
        return False

    async def _short(self) -> bool:
        """Send fewer bytes than the length says, then close."""
        await self._send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort")
        return False

    async def _long(self) -> bool:
        """Send more bytes than the length says, and keep the connection."""
        await self._send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n")
        return True

    async def _garbage(self) -> bool:
        """Send what is not HTTP; `/garbage/chunks`: a body with invalid chunks."""
        if self._argument:
            await self._send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nzzz")
        else:
            await self._send(b"220 mail.example ESMTP secret-of-the-server\r\n\r\n")
        return False

    async def _headers(self) -> bool:
        """Send too many headers, or `/headers/long`: one that is too long."""
        await self._send(b"HTTP/1.1 200 OK\r\n")
        for number in range(100_000):
            await self._send(b"x" * 1000 if self._argument else f"x-{number}: 1\r\n".encode())
        return False

    async def _informational(self) -> bool:
        """Send 103 again and again, and never a final answer."""
        while True:
            await self._send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            await asyncio.sleep(0.001)

    async def _answer(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> bool:
        lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        await self._send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return True

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        self._target.sent += len(data)


async def _control(
    target: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer each line of JSON, an order, with a line of JSON."""
    while line := await reader.readline():
        order = orjson.loads(line)
        if "plan" in order:
            target.plan = deque(order["plan"])
        if "down" in order:
            await (target.stop() if order["down"] else target.start())
        if order.get("forget"):
            target.seen.clear()
        writer.write(orjson.dumps(_report(target)) + b"\n")
        await writer.drain()
    writer.close()


def _report(target: Target) -> dict[str, Any]:
    seen = [
        {
            "method": each.method,
            "path": each.path,
            "headers": dict(each.headers),
            "body": each.body.decode("utf-8", "replace"),
        }
        for each in target.seen
    ]
    return {"seen": seen, "connections": target.connections, "open": target.open}


async def _main() -> None:
    parser = argparse.ArgumentParser(description="A target that misbehaves on demand.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control", type=int, default=0)
    given = parser.parse_args()
    target = Target()
    await target.start(given.port)
    server = await asyncio.start_server(
        lambda reader, writer: _control(target, reader, writer), "127.0.0.1", given.control
    )
    control = server.sockets[0].getsockname()[1]
    sys.stdout.write(orjson.dumps({"port": target.port, "control": control}).decode() + "\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
