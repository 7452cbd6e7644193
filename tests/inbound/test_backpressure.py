"""Bounds of the receiver: requests, bytes, rates, addresses, for any input."""

import asyncio
import tracemalloc
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.inbound.answers import Refusal
from inboxd.inbound.backpressure import AddressBuckets, InFlight, TokenBucket, allowance
from inboxd.inbound.body_reader import Room
from inboxd.model.receipt import Receipt
from inboxd.settings.values import Rate
from inboxd.store.receipts import Stored
from tests.inbound import calls
from tests.inbound.calls import PROVIDER, RESULT, Answered, Received, Written, receiving
from tests.support import eventually


class _Held(Written):
    """A write that waits until the test opens its gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = anyio.Event()

    async def __call__(self, page: Sequence[Receipt]) -> list[Stored]:
        await self.gate.wait()
        return await super().__call__(page)


@pytest.mark.anyio
async def test_ten_thousand_requests_at_once_are_bounded() -> None:
    write = _Held()
    http = {"max_requests": 100, "max_bytes": "1MiB"}
    async with receiving(http=http, write=write, within=30) as received:
        tasks = [asyncio.create_task(received.post()) for _ in range(10_000)]

        async def settled() -> bool:
            return sum(task.done() for task in tasks) == 9_900

        await eventually(settled)
        assert received.app.in_flight.requests == 100
        assert received.app.in_flight.bytes == 100 * len(RESULT)
        assert received.commit.waiting == 100
        write.gate.set()
        answers = await asyncio.gather(*tasks)
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
    statuses = [each.status for each in answers]
    assert (statuses.count(202), statuses.count(503)) == (100, 9_900)
    assert all(int(each.headers["retry-after"]) > 0 for each in answers if each.status == 503)


@pytest.mark.anyio
@pytest.mark.parametrize("chunked", [False, True])
async def test_bytes_in_flight_are_bounded(chunked: bool) -> None:
    write = _Held()
    source = {**PROVIDER, "max_body": "1MiB", "body": "text", "dedup_key": "", "ordering_key": None}
    body = b"x" * (300 << 10)
    more: dict[str, Any] = {"chunks": [body[:1000], body[1000:]]} if chunked else {}
    async with receiving({"provider": source}, {"max_bytes": "1MiB"}, write=write) as received:
        tasks = [asyncio.create_task(received.post(body, **more)) for _ in range(50)]

        async def settled() -> bool:
            return sum(task.done() for task in tasks) == 47

        await eventually(settled)
        assert received.app.in_flight.bytes == 3 * len(body)
        write.gate.set()
        statuses = [each.status for each in await asyncio.gather(*tasks)]
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
    assert (statuses.count(202), statuses.count(503)) == (3, 47)


@pytest.mark.anyio
async def test_an_endless_body_is_refused_at_the_size_limit() -> None:
    async with receiving({"provider": {**PROVIDER, "max_body": "64KiB"}}) as received:
        chunks = [b"x" * 1000] * 1000
        tracemalloc.start()
        answered = await received.post(b"", chunks=chunks)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert answered.status == 413
    assert most < 1 << 20


@pytest.mark.anyio
async def test_an_announced_body_takes_no_room() -> None:
    """It announces sixty-four megabytes, and sends nothing."""
    gate = anyio.Event()
    async with receiving() as received, anyio.create_task_group() as group:
        for _ in range(64):
            group.start_soon(_announced, received, 1 << 20, gate)
        await eventually(lambda: _coming(received, 64))
        assert received.app.in_flight.bytes == 0
        assert (await received.post()).status == 202
        group.cancel_scope.cancel()
    assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("http", "size"),
    [({"max_requests": 10}, 1), ({"max_bytes": "1MiB"}, 100_000)],
    ids=["requests", "bytes"],
)
async def test_stalled_bodies_give_way(
    monkeypatch: pytest.MonkeyPatch, http: dict[str, Any], size: int
) -> None:
    monkeypatch.setattr("inboxd.inbound.backpressure._GRACE_SECONDS", 1e-6)
    monkeypatch.setattr("inboxd.inbound.backpressure._SLOWEST_RATE", 1 << 40)
    gate, answers = anyio.Event(), list[Answered]()
    async with receiving(http=http) as received, anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(_announced, received, 1 << 20, gate, b"x" * size, answers)
        await eventually(lambda: _coming(received, 10, size))

        async def is_taken() -> bool:
            return (await received.post(b" " * (100_000 - len(RESULT)) + RESULT)).status == 202

        await eventually(is_taken)
        await eventually(lambda: _answered(answers, 10))
        assert {each.status for each in answers} == {503}
        assert all(int(each.headers["retry-after"]) > 0 for each in answers)
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
        group.cancel_scope.cancel()


async def _announced(
    received: Received,
    length: int,
    gate: anyio.Event,
    first: bytes = b"",
    answers: list[Answered] | None = None,
) -> None:
    """A request of which only the beginning of its body arrives."""
    answered = Answered()

    async def receive() -> dict[str, Any]:
        nonlocal first
        if first:
            part, first = first, b""
            return {"type": "http.request", "body": part, "more_body": True}
        await gate.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answered.status = message["status"]
            answered.headers = {k.decode(): v.decode() for k, v in message["headers"]}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/in/provider",
        "client": ("192.0.2.9", 1),
        "headers": [(b"content-length", b"%d" % length)],
    }
    await received.app(scope, receive, send)
    if answers is not None:
        answers.append(answered)


async def _coming(received: Received, count: int, size: int = 0) -> bool:
    coming = received.app.in_flight.coming
    return len(coming) == count and all(each.size == size for each in coming)


async def _answered(answers: list[Answered], count: int) -> bool:
    return len(answers) == count


def test_the_slowest_body_of_the_address_with_most_gives_way_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inboxd.inbound.backpressure._SHARE", 1)
    now, gone = 100.0, list[str]()
    in_flight = InFlight(5, 10_000_000, lambda: now)
    bodies = {}
    for name, address in (("a", "1"), ("b", "2"), ("c", "2"), ("d", "3"), ("e", "3")):
        assert in_flight.begin()

        def give_way(name: str = name) -> None:
            gone.append(name)
            in_flight.requests -= 1

        bodies[name] = in_flight.expect(address, give_way)
    assert not in_flight.begin()
    assert gone == [], "each body has its minimum time"
    now += 11
    bodies["a"].size = 10 * 50 * 1024 - 1  # also slow, but the only body of its address
    bodies["b"].size = 1000
    bodies["d"].size = bodies["e"].size = 10 * 50 * 1024  # fast enough
    assert in_flight.begin()
    assert gone == ["c", "b"]
    assert in_flight.begin()
    assert in_flight.begin(), "one more body gives way, of another address"
    assert gone == ["c", "b", "a"]
    assert not in_flight.begin()
    now += 100
    assert not in_flight.reserve(20_000_000, "3", bodies["d"])
    assert gone == ["c", "b", "a", "e"], "the body that asks for room stays"


@pytest.mark.anyio
async def test_an_address_above_its_share_gives_way_to_others() -> None:
    """None of its bodies is slow; only as many requests end as others need."""
    gate, answers = anyio.Event(), list[Answered]()
    async with receiving(http={"max_requests": 8}) as received, anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(_announced, received, 1 << 20, gate, b"x", answers)
        await eventually(lambda: _coming(received, 8, 1))
        assert (await received.post()).status == 202
        await eventually(lambda: _answered(answers, 1))
        assert answers[0].status == 503
        group.cancel_scope.cancel()


@pytest.mark.parametrize(("most", "size"), [(8, 10), (100, 100_000)], ids=["requests", "bytes"])
def test_an_address_keeps_its_share_when_others_need_room(most: int, size: int) -> None:
    """No body is slow; an address that is alone may use all the room."""
    gone = list[int]()
    in_flight = InFlight(most, 800_000, lambda: 100.0)
    for number in range(8):
        assert in_flight.begin("1")
        assert in_flight.reserve(size, "1")

        def give_way(number: int = number) -> None:
            gone.append(number)
            in_flight.requests -= 1
            in_flight.bytes -= size

        in_flight.expect("1", give_way).size = size - number

    def takes(address: str) -> bool:
        if not in_flight.begin(address):
            return False
        if in_flight.reserve(size, address):
            return True
        in_flight.requests -= 1
        return False

    assert not takes("1")
    assert gone == []
    in_flight._look_at = 0.0
    assert [takes("2") for _ in range(7)] == [True] * 6 + [False]
    assert gone == [7, 6, 5, 4, 3, 2], "the slowest first, until the address has a quarter"


@pytest.mark.anyio
async def test_a_part_that_arrives_while_its_body_gives_way_takes_no_room() -> None:
    in_flight = InFlight(1, 1000)
    room = Room(in_flight, "192.0.2.1")

    async def receive() -> dict[str, Any]:
        for body in list(in_flight.coming):
            body.give_way()  # and the next part has arrived already
        return {"type": "http.request", "body": b"x" * 10, "more_body": True}

    with pytest.raises(Refusal):
        await room.fill(receive, 1000)
    room.leave()
    assert (in_flight.requests, in_flight.bytes) == (0, 0)


def test_freed_bytes_can_be_reserved_again() -> None:
    in_flight = InFlight(1, 10)
    assert in_flight.reserve(10)
    assert not in_flight.reserve(1)
    in_flight.bytes -= 10
    assert in_flight.reserve(1)


@given(
    rate=st.tuples(st.integers(1, 1000), st.sampled_from([1, 60, 3600])),
    burst=st.integers(1, 50),
    waits=st.lists(st.floats(0, 100), min_size=1, max_size=60),
)
def test_a_bucket_never_exceeds_its_rate_and_burst(
    rate: tuple[int, int], burst: int, waits: list[float]
) -> None:
    """In any period it gives at most the tokens of its rate and its burst."""
    allowed = allowance(Rate(*rate), burst)
    bucket, now, given = TokenBucket(allowed), 1000.0, list[float]()
    for wait in waits:
        now += wait
        retry = bucket.take(now)
        if not retry:
            given.append(now)
        else:
            assert TokenBucket(allowed).take(now) == 0
            later = now + retry + 1e-5
            assert bucket.take(later) == 0, "a token is there after the wait that it returned"
            given.append(later)
            now = later
    for first in range(len(given)):
        for last in range(first, len(given)):
            most = burst + (given[last] - given[first]) / allowed.each + 0.01
            assert last - first + 1 <= most


def test_the_default_burst_is_the_rate_of_one_second() -> None:
    bucket = TokenBucket(allowance(Rate(10, 1), None))
    assert [bool(bucket.take(5.0)) for _ in range(12)] == [False] * 10 + [True] * 2
    slow = TokenBucket(allowance(Rate(1, 3600), None))
    assert not slow.take(5.0)
    assert slow.take(5.0) == pytest.approx(3600)


def test_the_number_of_remembered_addresses_is_bounded() -> None:
    buckets = AddressBuckets(allowance(Rate(1, 3600), 1), 100)
    assert not buckets.take("192.0.2.1", 1.0)
    for number in range(10_000):
        buckets.take(f"10.0.{number >> 8}.{number & 255}", 1.0)
        if number % 50 == 0:
            assert buckets.take("192.0.2.1", 1.0), "an address that is used again and again is kept"
    assert len(buckets) == 100


@pytest.mark.anyio
async def test_new_settings_do_not_refill_an_unchanged_bucket() -> None:
    source: dict[str, Any] = {**PROVIDER, "rate": "1/h"}
    async with receiving({"provider": source}) as received, receiving({"provider": source}) as same:
        assert (await received.post()).status == 202
        received.app.reload(same.sources)
        assert (await received.post()).status == 429
        async with receiving({"provider": {**source, "rate": "2/h"}, "new": PROVIDER}) as other:
            received.app.reload(other.sources)
            received.sources = other.sources
            assert (await received.post()).status == 202
            assert (await received.post(source="new")).status == 202
        async with receiving({"new": PROVIDER}) as fewer:
            received.app.reload(fewer.sources)
        assert (await received.post()).status == 404


@pytest.mark.anyio
async def test_a_whole_body_without_a_length_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "at_once", True)
    small, source = 100, {**PROVIDER, "max_body": 1000}
    async with receiving({"provider": source}, {"max_bytes": 1000}) as received:
        assert (await received.post(b"x" * small, length=False)).status == 202
        assert (await received.post(b"x" * 1001, length=False)).status == 413
        received.app.in_flight.bytes += 950
        assert (await received.post(b"x" * small, length=False)).status == 503
        received.app.in_flight.bytes -= 950
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
