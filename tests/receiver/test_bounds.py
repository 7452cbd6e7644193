"""Slow and endless senders are disconnected in time, or give way; memory is bounded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from inboxd.embedded import Server
from tests.receiver.standstill import standing_still
from tests.support import Database
from tests.support.http_wire import Answer, NoAnswer, Wire
from tests.support.received import verify
from tests.support.receiver import Receiver, StartReceiver
from tests.support.sender import standard_webhooks
from tests.support.waiting import bounded, eventually

pytestmark = pytest.mark.anyio

_HEAD = b"POST /in/bets HTTP/1.1\r\nhost: test\r\n"
_MEGABYTE = bytes(1 << 20)


@asynccontextmanager
async def served_meanwhile(receiver: Receiver, inbox: Database) -> AsyncIterator[None]:
    """Other requests are served all the time, and the process stays alive."""
    provider = receiver.provider()
    async with provider.load(keys=2, pause=0.01):
        await provider.goes_on(5)
        yield
        await provider.goes_on(5)
    assert set(provider.ended) == {"202"}, provider.ended
    await verify(inbox, provider)
    receiver.holds()


async def drip(wire: Wire, drop: bytes) -> None:
    """Send a few bytes again and again, until the other side has closed the connection."""
    with bounded():
        while wire.open:
            wire.send(drop)
            with anyio.move_on_after(0.1):
                await wire.ended()


@pytest.mark.parametrize("begun", [b"", b"content-length: 100000\r\n\r\n"], ids=["head", "body"])
async def test_a_hundred_slow_senders_do_not_delay_others(
    inbox: Database, start_receiver: StartReceiver, begun: bytes
) -> None:
    receiver = await start_receiver(http={"header_timeout": "1h", "body_timeout": "1h"})
    wires = [await Wire.connect(receiver.port) for _ in range(100)]
    async with served_meanwhile(receiver, inbox):
        for wire in wires:
            wire.send(_HEAD + begun)
    assert all(wire.open for wire in wires)
    for wire in wires:
        wire.close()


async def test_endless_headers_are_cut_off(inbox: Database, start_receiver: StartReceiver) -> None:
    receiver = await start_receiver(http={"header_timeout": "1s"})

    async def trickle() -> None:
        wire = await Wire.connect(receiver.port)
        wire.send(_HEAD)
        await drip(wire, b"x")

    async with served_meanwhile(receiver, inbox):
        await asyncio.gather(*(trickle() for _ in range(100)))


async def test_endless_bodies_are_cut_off(inbox: Database, start_receiver: StartReceiver) -> None:
    receiver = await start_receiver(http={"body_timeout": "1s"})

    async def trickle(length: bytes) -> Answer | None:
        wire = await Wire.connect(receiver.port)
        wire.send(_HEAD + length + b"\r\n\r\n")
        await drip(wire, b"1\r\nx\r\n")
        try:
            return await wire.answer()
        except NoAnswer:
            return None
        finally:
            wire.close()

    lengths = [b"content-length: 100000", b"transfer-encoding: chunked"] * 50
    async with served_meanwhile(receiver, inbox):
        answers = await asyncio.gather(*map(trickle, lengths))
    assert {answer.status for answer in answers if answer is not None} == {408}


@pytest.mark.parametrize(
    ("http", "sent"),
    [
        ({}, [_HEAD + b"content-length: 1048576\r\n\r\n"] * 64),
        ({"max_requests": 20}, [_HEAD + b"content-length: 2\r\n\r\n1"] * 20),
        (
            {"max_bytes": "1MiB"},
            [_HEAD + b"content-length: 1000000\r\n\r\n" + bytes(200_000)] * 5,
        ),
        ({"max_connections": 20}, [_HEAD] * 20),
        ({"max_connections": 20}, [b""] * 20),
    ],
    ids=["announced", "one byte", "a part", "heads", "silent"],
)
async def test_stalled_senders_do_not_keep_others_out(
    inbox: Database, start_receiver: StartReceiver, http: dict[str, object], sent: list[bytes]
) -> None:
    """The strangers stay for an hour, and the provider's requests are accepted in time."""
    times = {"body_timeout": "1h", "header_timeout": "1h", "keep_alive": "1h"}
    receiver = await start_receiver(http={**times, **http})
    wires = [await Wire.connect(receiver.port) for _ in sent]
    provider = receiver.provider(again=True)
    try:
        for wire, part in zip(wires, sent, strict=True):
            wire.send(part)
        for number in range(3):
            await provider.offer(f"m{number}")
    finally:
        provider.close()
        for wire in wires:
            wire.close()
    await verify(inbox, provider)
    receiver.holds()


@pytest.mark.parametrize("length", [b"content-length: 1000000000", b"transfer-encoding: chunked"])
async def test_a_too_large_body_is_cut_off_and_never_in_memory(
    inbox: Database, start_receiver: StartReceiver, length: bytes
) -> None:
    receiver = await start_receiver(source={"max_body": "100KiB"})
    before = receiver.resident

    async def pour() -> int | None:
        wire = await Wire.connect(receiver.port)
        wire.send(_HEAD + length + b"\r\n\r\n")
        chunk = b"100000\r\n" + _MEGABYTE + b"\r\n"
        for _ in range(20):
            if not wire.open:
                break
            wire.send(_MEGABYTE if b"content" in length else chunk)
            await anyio.lowlevel.checkpoint()
        try:
            return (await wire.answer()).status
        except NoAnswer:
            return None  # reset before the answer was read
        finally:
            wire.close()

    async with served_meanwhile(receiver, inbox):
        statuses = await asyncio.gather(*(pour() for _ in range(50)))
    assert set(statuses) <= {413, None}
    assert 413 in statuses
    assert receiver.resident - before < 40


async def test_requests_that_wait_for_a_frozen_database_take_bounded_memory(
    durable_server: Server,
    inbox: Database,
    start_receiver: StartReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Otherwise the C library keeps freed memory for the process.
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.setenv(name, "65536")
    most = 16
    receiver = await start_receiver(
        http={"max_bytes": f"{most}MiB", "answer_within": "2s"}, source={"max_body": "1MiB"}
    )
    provider = receiver.provider(again=True)
    await provider.offer("before")
    provider.close()
    before = receiver.resident
    sign = standard_webhooks()
    body = b'{"match": "m", "number": 1, "item": 0, "pad": "' + b"x" * 900_000 + b'"}'

    async def send(number: int) -> int:
        head = "".join(f"{k}: {v}\r\n" for k, v in sign(body, f"large-{number}").items())
        length = b"content-length: %d\r\n" % len(body)
        wire = await Wire.connect(receiver.port)
        try:
            return (await wire.ask(_HEAD + length + head.encode() + b"\r\n" + body)).status
        except NoAnswer:
            return 0
        finally:
            wire.close()

    async def is_given_back() -> bool:
        return receiver.resident - before < 4 * most

    for _ in range(3):  # refused requests must not accumulate
        with standing_still(durable_server):
            statuses = await asyncio.gather(*(send(number) for number in range(200)))
        assert set(statuses) <= {503, 0}, statuses
    # Twice for requests in flight, as bytes and as text; twice for the previous round, until its
    # writes end; less than four times for two connections that send, and copy, to the database. The
    # rest is for data that is read from connections before they are refused.
    assert receiver.most_resident - before < 12 * most
    await eventually(is_given_back)
    receiver.holds()
    await provider.offer("after")
    provider.close()
    assert provider.accepted == 2
