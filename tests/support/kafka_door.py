"""A proxy before a broker of the mock, with the features that the mock lacks: TLS and SASL.

    async with door(kafka, tmp_path, mechanism="SCRAM-SHA-512") as proxy:
        broker = kafka.broker(servers=[proxy.address], ...)

The proxy serves in a loop and a thread of its own: uvloop does not end after a TLS connection that
Kafka's client has cut. The broker advertises the proxy instead of itself.
"""

import asyncio
import ssl
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.from_thread import start_blocking_portal

from tests.support.certificates import write_signed_certificate
from tests.support.kafka import MockKafka
from tests.support.scram import ScramServer

# A step of a login: from the client's message to the answer; None: the client is refused.
Step = Callable[[bytes], bytes | None]

_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_UNSUPPORTED_MECHANISM, _NOT_LET_IN = 33, 58
_USER, _PASSWORD = "inboxd", "hunter2"
_REFUSED = b"Invalid username or password"


class Door:
    """A proxy. mechanism: by which clients must log in; None: they need not.

    impostor: the proxy does not know the password, and lets all clients in.
    """

    def __init__(self, target: tuple[str, int], *, mechanism: str | None, impostor: bool) -> None:
        self.address = ""
        self.authority = ""
        """The file of the authority that has signed its certificate."""
        self.users: list[str] = []
        """The user of each connection that was let in."""
        self.open: set[asyncio.Task[None]] = set()
        """The connections that are served."""
        self._target = target
        self._mechanism = mechanism
        self._impostor = impostor

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self.open.add(task)
            task.add_done_callback(self.open.discard)
        # The client may close it at any time; `_listening` cancels it.
        with suppress(OSError, EOFError, asyncio.CancelledError):
            async with _ends(writer):
                from_broker, to_broker = await asyncio.open_connection(*self._target)
                async with _ends(to_broker):
                    if await self._let_in(reader, writer, from_broker, to_broker):
                        async with anyio.create_task_group() as both:
                            both.start_soon(_carry, reader, to_broker, both.cancel_scope)
                            await _carry(from_broker, writer, both.cancel_scope)

    async def _let_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_broker: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
    ) -> bool:
        if self._mechanism is None:
            return True
        steps = self._steps(self._mechanism)
        said: bytes | None = b""
        while steps:
            frame = await _frame(reader)
            key, _, correlation, size = struct.unpack(">hhih", frame[:10])
            body = frame[10 + size :]
            if key == _VERSIONS:
                to_broker.write(struct.pack(">i", len(frame)) + frame)
                answer = _with_logins(await _frame(from_broker))
            elif key == _HANDSHAKE:
                answer = _handshake(correlation, body[2:], self._mechanism.encode())
            else:
                assert key == _AUTHENTICATE
                said = steps.pop(0)(body[4:])
                answer = _authenticated(correlation, said)
            writer.write(struct.pack(">i", len(answer)) + answer)
            if said is None:
                return False
        self.users.append(_USER)
        return True

    def _steps(self, mechanism: str) -> list[Step]:
        """The steps of a login, one for each message of the client."""
        if mechanism == "PLAIN":
            known = f"\0{_USER}\0{_PASSWORD}".encode()
            return [lambda login: b"" if login.endswith(known) else None]
        hash_name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        server = ScramServer(hash_name, _USER, _PASSWORD)
        if self._impostor:
            return [server.challenge, lambda _: b"v=" + b64encode(b"a guess")]
        return [server.challenge, server.signature]


@asynccontextmanager
async def door(
    kafka: MockKafka,
    folder: Path | None = None,
    *,
    mechanism: str | None = None,
    impostor: bool = False,
) -> AsyncIterator[Door]:
    """Open a proxy before broker 1, with TLS if there is a folder for its certificate."""
    host, port = kafka.servers[0].rsplit(":", 1)
    running = Door((host, int(port)), mechanism=mechanism, impostor=impostor)
    context = None
    if folder is not None:
        files = write_signed_certificate(folder, "localhost")
        running.authority = files["authority"]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files["certificate"], files["private_key"])
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_listening(running, context)) as own,
    ):
        running.address = f"localhost:{own}"
        kafka.advertise(1, "localhost", own)
        try:
            yield running
        finally:
            kafka.advertise(1, host, int(port))


@asynccontextmanager
async def _listening(running: Door, context: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Serve; the value is the port."""
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for task in running.open:
        task.cancel()
    await asyncio.gather(*running.open)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, both: anyio.CancelScope
) -> None:
    """Carry one direction; its end is that of both."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    both.cancel()


@asynccontextmanager
async def _ends(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Cut the connection after the block."""
    try:
        yield
    finally:
        writer.transport.abort()
        with suppress(OSError), anyio.CancelScope(shield=True):
            await writer.wait_closed()


def _handshake(correlation: int, asked: bytes, mechanism: bytes) -> bytes:
    """Name the mechanism; an error if the client has asked for another one."""
    code = 0 if asked == mechanism else _UNSUPPORTED_MECHANISM
    return struct.pack(">ihih", correlation, code, 1, len(mechanism)) + mechanism


def _authenticated(correlation: int, said: bytes | None) -> bytes:
    """The answer to one message of a login."""
    if said is None:
        head = struct.pack(">ihh", correlation, _NOT_LET_IN, len(_REFUSED))
        return head + _REFUSED + bytes(4)
    return struct.pack(">ihhi", correlation, 0, -1, len(said)) + said


def _with_logins(answer: bytes) -> bytes:
    """The broker's supported versions, with those of the two login requests added."""
    correlation, code, count = struct.unpack(">ihi", answer[:10])
    logins = struct.pack(">hhhhhh", _HANDSHAKE, 0, 1, _AUTHENTICATE, 0, 0)
    return struct.pack(">ihi", correlation, code, count + 2) + answer[10:] + logins
