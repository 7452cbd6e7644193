"""A customer's server that receives webhooks: it keeps the requests, and answers as a test says.

    async with serving() as customer:
        customer.replies["/"] = 503
        [got] = await customer.has(1)

Promises: a request is in `got` before it is answered; requests are in order of arrival. Signatures
are checked by a few lines of its own, not by inboxd's code.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.support.waiting import WITHIN, eventually


@dataclass(frozen=True, slots=True)
class Got:
    """One request; the names of headers are in lower case. at: Unix time of its arrival."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> Any:
        """The payload that the producer sent."""
        return json.loads(self.body)["data"]

    def is_signed_by(self, secret: str) -> bool:
        """Whether one of the request's signatures is valid for this secret."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        made = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return f"v1,{made}" in self.headers["webhook-signature"].split(" ")


# A status, or a function that makes the whole answer, perhaps later. None breaks the connection.
Reply = int | Callable[[Got], Awaitable[bytes | None]]


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of an answer."""
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    return (
        f"HTTP/1.1 {status} Told\r\ncontent-length: {len(body)}\r\n{''.join(lines)}\r\n".encode()
        + body
    )


@dataclass
class Customer:
    """The server. replies: the answer by path; other paths get 204."""

    port: int = 0
    got: list[Got] = field(default_factory=list)
    replies: dict[str, Reply] = field(default_factory=dict)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def at(self, path: str) -> list[Got]:
        """The requests to a path."""
        return [each for each in self.got if each.path == path]

    async def has(self, count: int, path: str = "/", within: float = WITHIN) -> list[Got]:
        """Wait until at least `count` requests came to a path; return all of that path."""

        async def have() -> bool:
            return len(self.at(path)) >= count

        await eventually(have, within)
        return self.at(path)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                got = await _request(line, reader)
                self.got.append(got)
                reply = self.replies.get(got.path, 204)
                told = answer(reply) if isinstance(reply, int) else await reply(got)
                if told is None:
                    break
                writer.write(told)
                await writer.drain()
        writer.close()


async def _request(line: bytes, reader: asyncio.StreamReader) -> Got:
    headers = {}
    while (header := await reader.readline()).strip():
        name, _, value = header.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Got(line.decode().split(" ")[1], headers, body, time.time())


@asynccontextmanager
async def serving(port: int = 0) -> AsyncIterator[Customer]:
    """Serve a customer during the `async with` block; requests that are open at its end are cut."""
    customer = Customer()
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(customer.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        writers.append(writer)

    server = await asyncio.start_server(begin, "127.0.0.1", port)
    customer.port = server.sockets[0].getsockname()[1]
    try:
        yield customer
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.close()
        for writer in writers:
            with suppress(OSError):
                await writer.wait_closed()
