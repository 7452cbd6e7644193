"""An HTTP/1.1 connection for tests: bytes are sent unchanged, answers are parsed.

    wire = await Wire.connect(port)
    answer = await wire.ask(request("/hooks", b"{}", {}))

Promises: the error says whether the request may have arrived (`NoAnswer`), or cannot have
(`Refused`).
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Self, cast

import anyio
import httptools
import orjson

from tests.support.waiting import WITHIN, patient


class Refused(Exception):
    """The connection was not accepted: the request was not sent."""


class NoAnswer(Exception):
    """The request was sent, at least in part, and no answer came."""


class Answer(NamedTuple):
    """An answer; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def accepted(self) -> bool:
        """Whether the receiver has accepted the request."""
        return 200 <= self.status < 300

    @property
    def json(self) -> dict[str, object]:
        """The body as a JSON object."""
        found: dict[str, object] = orjson.loads(self.body)
        return found


class Wire(asyncio.Protocol):
    """One connection, for one request at a time; `open` until either side closes it."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self._headers: dict[str, str] = {}
        self._body = b""
        self._ended = asyncio.Event()
        self.transport: asyncio.Transport
        self.open = False

    @classmethod
    async def connect(cls, port: int, within: float = WITHIN) -> Self:
        """Connect to loopback. Raises Refused."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patient(within)):
                _, wire = await loop.create_connection(cls, "127.0.0.1", port)
        except OSError as error:  # TimeoutError is one
            raise Refused(str(error)) from error
        return wire

    async def ask(self, request: bytes, within: float = WITHIN) -> Answer:
        """Send a whole request and return its answer. Raises NoAnswer."""
        self.send(request)
        return await self.answer(within)

    def send(self, data: bytes) -> None:
        """Send a part of a request."""
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(data)

    async def answer(self, within: float = WITHIN) -> Answer:
        """Return the next answer. When none comes, close the connection and raise NoAnswer."""
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        if not self.open and not self._waiter.done():
            self._waiter = None
            raise NoAnswer("the connection is closed")
        try:
            async with asyncio.timeout(patient(within)):
                return await self._waiter
        except TimeoutError as error:
            self.close()
            raise NoAnswer(f"nothing within {patient(within):g} seconds") from error
        finally:
            self._waiter = None

    async def ended(self, within: float = WITHIN) -> None:
        """Wait until the other side has closed the connection."""
        async with asyncio.timeout(patient(within)):
            await self._ended.wait()

    def close(self) -> None:
        self.open = False
        self.transport.abort()

    # ------------------------------------------------------------------ called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is not a subclass of asyncio.Transport.
        self.transport, self.open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        """Parse; close the connection if the bytes are not HTTP."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(NoAnswer(f"not HTTP: {error}: {data[:200]!r}"))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self._ended.set()
        self._fail(NoAnswer(f"the connection was closed: {error or 'in order'}"))

    def _fail(self, error: NoAnswer) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
            self._waiter.exception()  # retrieved: an error that is not awaited is not logged

    # ---------------------------------------------------------------- called by the parser

    def on_message_begin(self) -> None:
        self._headers, self._body = {}, b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        """Give the answer to the task that waits, if one does."""
        answer = Answer(self._parser.get_status_code(), self._headers, self._body)
        if not self._parser.should_keep_alive():
            self.open = False
            self.transport.close()
        if self._waiter is not None:
            with suppress(asyncio.InvalidStateError):
                self._waiter.set_result(answer)


def request(
    path: str, body: bytes, headers: Mapping[str, str], *, method: str = "POST", host: str = "test"
) -> bytes:
    """The bytes of a request, with a Content-Length."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


async def post(port: int, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Send one request on a connection of its own."""
    wire = await Wire.connect(port)
    try:
        return await wire.ask(request(path, body, headers))
    finally:
        wire.close()
        await anyio.lowlevel.checkpoint()
