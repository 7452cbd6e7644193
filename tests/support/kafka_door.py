"""A proxy before a broker of the mock, with the features that the mock lacks: TLS and SASL PLAIN.

    async with door(kafka, tmp_path, logs_in=True) as proxy:
        broker = kafka.broker(servers=[proxy.address], ...)

The proxy serves in the test's own loop. The broker advertises the proxy instead of itself.
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.support.certificates import write_signed_certificate
from tests.support.kafka import MockKafka

_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_UNSUPPORTED_MECHANISM, _NOT_LET_IN = 33, 58
_LETS_IN = b"\0inboxd\0hunter2"


class Door:
    """A proxy. logs_in: clients must log in."""

    def __init__(self, target: tuple[str, int], *, logs_in: bool) -> None:
        self.address = ""
        self.authority = ""
        """The file of what its certificate is signed by."""
        self.users: list[str] = []
        """Those who were let in, one for each connection."""
        self._target = target
        self._logs_in = logs_in

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_broker: asyncio.StreamWriter | None = None
        # The client may close it at any time.
        with suppress(OSError, asyncio.IncompleteReadError):
            from_broker, to_broker = await asyncio.open_connection(*self._target)
            if not self._logs_in or await self._let_in(reader, writer, from_broker, to_broker):
                ways = [_carry(reader, to_broker), _carry(from_broker, writer)]
                tasks = [asyncio.create_task(way) for way in ways]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        for end in (writer, to_broker):
            if end is not None:
                end.close()

    async def _let_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_broker: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
    ) -> bool:
        while True:
            frame = await _frame(reader)
            key, _, correlation, size = struct.unpack(">hhih", frame[:10])
            body, known = frame[10 + size :], False
            if key == _VERSIONS:
                to_broker.write(struct.pack(">i", len(frame)) + frame)
                answer = _with_logins(await _frame(from_broker))
            elif key == _HANDSHAKE:
                known = body[2:] == b"PLAIN"
                code = 0 if known else _UNSUPPORTED_MECHANISM
                answer = struct.pack(">ihih", correlation, code, 1, 5) + b"PLAIN"
            else:
                assert key == _AUTHENTICATE
                return self._authenticate(writer, correlation, body)
            writer.write(struct.pack(">i", len(answer)) + answer)

    def _authenticate(self, writer: asyncio.StreamWriter, correlation: int, body: bytes) -> bool:
        known, why = body.endswith(_LETS_IN), b"Invalid username or password"
        if known:
            self.users.append("inboxd")
            answer = struct.pack(">ihhi", correlation, 0, -1, 0)
        else:
            answer = struct.pack(">ihh", correlation, _NOT_LET_IN, len(why)) + why + bytes(4)
        writer.write(struct.pack(">i", len(answer)) + answer)
        return known


@asynccontextmanager
async def door(
    kafka: MockKafka, folder: Path | None = None, *, logs_in: bool = False
) -> AsyncIterator[Door]:
    """Open a proxy before broker 1, with TLS if there is a folder for its certificate."""
    host, port = kafka.servers[0].rsplit(":", 1)
    running = Door((host, int(port)), logs_in=logs_in)
    context = None
    if folder is not None:
        files = write_signed_certificate(folder, "localhost")
        running.authority = files["authority"]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files["certificate"], files["private_key"])
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0, ssl=context)
    own = server.sockets[0].getsockname()[1]
    running.address = f"localhost:{own}"
    kafka.advertise(1, "localhost", own)
    try:
        yield running
    finally:
        kafka.advertise(1, host, int(port))
        server.close()
        await server.wait_closed()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def _with_logins(answer: bytes) -> bytes:
    """The broker's supported versions, with those of the two login requests added."""
    correlation, code, count = struct.unpack(">ihi", answer[:10])
    logins = struct.pack(">hhhhhh", _HANDSHAKE, 0, 1, _AUTHENTICATE, 0, 0)
    return struct.pack(">ihi", correlation, code, count + 2) + answer[10:] + logins
