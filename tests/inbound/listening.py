"""A listener in the test's event loop, and clients that write bytes.

async with listening(Echo()) as on:
    assert status(await on.ask(post(b"hello"))) == 202
"""

import hashlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketStream

from inboxd.inbound.listener import InboundListener, listen
from inboxd.settings import InboundHttp
from tests.support.waiting import bounded


@dataclass
class Listening:
    """A listener that serves, with the bodies and the refusals that it has seen."""

    listener: InboundListener
    port: int
    refused: list[str]
    bodies: list[bytes]

    async def connect(self) -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)

    async def ask(self, sent: bytes) -> bytes:
        """Write once, and read until the connection ends."""
        async with await self.connect() as client:
            await client.send(sent)
            return await rest(client)


@dataclass
class Echo:
    """Answers 202 with a digest of the body; or `early` before the body is read."""

    bodies: list[bytes] = field(default_factory=list)
    early: int | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del scope
        if self.early is not None:
            await answer(send, self.early, b"early")
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.bodies.append(body)
        await answer(send, 202, hashlib.sha256(body).hexdigest()[:16].encode())


class TakingEcho(Echo):
    """Takes a request that is whole after one read, and answers it at once."""

    def take(self, scope: Any, body: bytes, respond: Any) -> None:
        assert (scope["type"], scope["method"]) == ("http", "POST")
        self.bodies.append(body)
        text = hashlib.sha256(body).hexdigest()[:16].encode()
        headers = [(b"content-length", str(len(text)).encode())]
        respond(
            {"type": "http.response.start", "status": 202, "headers": headers},
            {"type": "http.response.body", "body": text},
        )


async def answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def post(body: bytes = b"hello", *headers: bytes) -> bytes:
    lines = (b"POST /in/x HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body), *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def bound(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=4096)


@asynccontextmanager
async def listening(
    app: Any = None, *, sockets: list[socket.socket] | None = None, **settings: Any
) -> AsyncIterator[Listening]:
    app = app or Echo()
    sockets = sockets or [bound()]
    port = sockets[0].getsockname()[1]
    refused: list[str] = []
    values = {"header_timeout": "5s", "body_timeout": "5s", "keep_alive": "5s"} | settings

    async def serve(*, task_status: Any) -> None:
        await listen(
            InboundHttp(**values),
            app,
            sockets=sockets,
            on_refused=refused.append,
            task_status=task_status,
        )

    async with anyio.create_task_group() as group:
        listener = await group.start(serve)
        yield Listening(listener, port, refused, getattr(app, "bodies", []))
        group.cancel_scope.cancel()


async def rest(client: ByteStream) -> bytes:
    """Read until the connection ends. Raises if it is reset."""
    received = b""
    with bounded():
        while True:
            try:
                received += await client.receive()
            except anyio.EndOfStream:
                return received


async def one_answer(client: ByteStream) -> bytes:
    """Read one answer with a Content-Length."""
    received = b""
    with bounded():
        while True:
            received += await client.receive()
            head, found, body = received.partition(b"\r\n\r\n")
            if found and len(body) >= length(head):
                return received


def length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def statuses(answers: bytes) -> list[int]:
    return [int(each[:3]) for each in answers.split(b"HTTP/1.1 ")[1:]]
