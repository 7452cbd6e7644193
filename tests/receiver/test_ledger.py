"""The provider's ledger proves each broken promise of the receiver.

The provider's connection is tested, too: it distinguishes a request without an answer from one that
was never sent.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import orjson
import pytest

from tests.support.http_wire import Answer
from tests.support.ports import held_port
from tests.support.received import EventRow, ReceiptRow, judge
from tests.support.sender import Entry, Provider

pytestmark = pytest.mark.anyio

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def accepted(entry: Entry, receipt: str, *events: str) -> None:
    body = orjson.dumps({"receipt": receipt, "events": events})
    entry.answers.append(Answer(202, {}, body))


def told(*entries: Entry) -> tuple[list[ReceiptRow], list[EventRow]]:
    """Correct rows of the tables: each of these entries was accepted once."""
    receipts: list[ReceiptRow] = []
    events: list[EventRow] = []
    for entry in entries:
        own = [f"e-{entry.message_id}-{item}" for item in range(len(entry.events))]
        receipt = f"r-{entry.message_id}"
        receipts.append(ReceiptRow(receipt, entry.message_id, "stored", entry.body, own))
        for name, payload in zip(own, entry.events, strict=True):
            events.append(EventRow(len(events) + 1, name, payload, receipt))
        accepted(entry, receipt, *own)
    return receipts, events


def sent(provider: Provider, *keys: str) -> list[Entry]:
    """Entries, each made after the previous ones were accepted."""
    entries = []
    for key in keys:
        entry = provider.entry(key)
        entries.append(entry)
        provider.note_accepted(entry)
    return entries


async def test_correct_rows_have_no_findings() -> None:
    entries = sent(Provider(), "a", "b", "a")
    assert list(judge(entries, *told(*entries))) == []
    arrays = sent(Provider(items=3), "a", "a")
    assert list(judge(arrays, *told(*arrays))) == []


async def test_a_request_without_an_answer_may_be_stored_once_or_not() -> None:
    entries = sent(Provider(), "a", "a")
    receipts, events = told(*entries)
    entries[1].answers.clear()
    entries[1].lost = 1
    assert list(judge(entries, receipts, events)) == []
    assert list(judge(entries, receipts[:1], events[:1])) == []


@pytest.mark.parametrize(
    ("finding", "tables"),
    [
        ("receipts that are not there", lambda r, e: (r[1:], e)),
        ("its events are there [0] times", lambda r, e: (r, e[1:])),
        ("its events are there [2] times", lambda r, e: (r, [*e, e[0]._replace(id=9)])),
        ("2 receipts, with 1 times 2xx", lambda r, e: ([*r, r[0]._replace(outcome="dup")], e)),
        ("written 2 times, not once", lambda r, e: ([*r, r[0]], e)),
        ("another body", lambda r, e: ([r[0]._replace(body=b"{}"), *r[1:]], e)),
        ("another outcome: broken", lambda r, e: ([r[0]._replace(outcome="broken"), *r[1:]], e)),
        ("of what nobody sent", lambda r, e: ([*r, r[0]._replace(message_id="msg_x")], e)),
        (
            "an event that nobody sent",
            lambda r, e: (r, [*e, e[0]._replace(payload={"match": "x", "number": 1, "item": 0})]),
        ),
        ("another receipt", lambda r, e: (r, [e[0]._replace(receipt_id="r-x"), *e[1:]])),
        ("other events than are there", lambda r, e: (r, [e[0]._replace(event_id="x"), *e[1:]])),
        ("before what was accepted", lambda r, e: (r, [e[0]._replace(id=9), *e[1:]])),
    ],
)
async def test_each_broken_promise_is_found(
    finding: str,
    tables: Callable[[list[ReceiptRow], list[EventRow]], tuple[list[ReceiptRow], list[EventRow]]],
) -> None:
    entries = sent(Provider(), "a", "a", "b")
    found = list(judge(entries, *tables(*told(*entries))))
    assert any(finding in each for each in found), found


async def test_a_refused_request_must_not_be_stored() -> None:
    (entry,) = sent(Provider(), "a")
    receipts, events = told(entry)
    entry.answers[:] = [Answer(401, {}, b"")]
    assert any("refused, and there" in found for found in judge([entry], receipts, events))


async def test_an_array_must_be_stored_whole_and_in_order() -> None:
    (entry,) = sent(Provider(items=3), "a")
    receipts, events = told(entry)
    turned = [events[1]._replace(id=0), events[0], events[2]]
    assert any("out of order" in found for found in judge([entry], receipts, turned))
    entry.answers.clear()
    entry.lost = 1
    assert any("[1, 1, 0]" in found for found in judge([entry], receipts, events[:2]))


# ---------------------------------------------------------------------------- its connections


@asynccontextmanager
async def server(serve: Serve) -> AsyncIterator[int]:
    """A server for one test; yields its port."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as running:
        yield running.sockets[0].getsockname()[1]


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return await reader.readexactly(length)


def _said(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_connections_are_kept_alive_until_the_server_closes_them() -> None:
    begun: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append(0)
        for number in range(3):
            await _request(reader)
            begun[-1] += 1
            close = ["connection: close"] if number == 2 else []
            writer.write(_said("202 Accepted", *close))
        writer.close()

    async with server(serve) as port:
        provider = Provider(port)
        for _ in range(6):
            await provider.offer("a")
        provider.close()
    assert begun == [3, 3]
    assert provider.ended == {"202": 6}


async def test_a_missing_answer_is_not_a_refusal() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.close()

    async with server(serve) as port:
        provider = Provider(port)
        entry = await provider.offer("a")
        assert (entry.lost, entry.answers, entry.accepted) == (1, [], False)
    with held_port() as held:
        provider = Provider(held.getsockname()[1])
        entry = await provider.offer("a")
    assert (entry.lost, entry.answers) == (0, [])
    assert provider.ended == {"refused": 1}


async def test_a_repeating_provider_sends_the_same_request_until_it_is_accepted() -> None:
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while len(bodies) < 3:
            bodies.append(await _request(reader))
            writer.write(_said("202 OK" if len(bodies) == 3 else "503 Gone"))
        writer.close()

    async with server(serve) as port:
        entry = await Provider(port, again=True).offer("a")
    assert [answer.status for answer in entry.answers] == [503, 503, 202]
    assert bodies == [entry.body] * 3


async def test_one_request_per_key_is_in_progress() -> None:
    running: dict[str, int] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                match = orjson.loads(await _request(reader))["match"]
            except asyncio.IncompleteReadError:
                break
            running[match] = running.get(match, 0) + 1
            assert running[match] == 1
            await anyio.sleep(0.001)
            running[match] -= 1
            writer.write(_said("202 Accepted"))
        writer.close()

    async with server(serve) as port:
        provider = Provider(port)
        async with provider.load(keys=4):
            await provider.goes_on(40)
    assert len(running) == 4
    assert [entry.after for entry in provider.ledger if entry.key == "match-0"][:3] == [0, 1, 2]
