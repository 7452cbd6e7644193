"""Each bound of the listener: excess is refused, and holds no memory."""

import resource
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from typing import Any

import anyio
import orjson
import pytest
from anyio.abc import SocketStream

from tests.inbound.listening import (
    Echo,
    Listening,
    answer,
    listening,
    one_answer,
    post,
    rest,
    status,
    statuses,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def on() -> AsyncIterator[Listening]:
    async with listening() as on:
        yield on


# ------------------------------------------------------------------ the head


@pytest.mark.parametrize(
    "headers",
    [
        (b"X: " + b"x" * 33_000,),
        tuple(b"X-%d: %s" % (n, b"x" * 1000) for n in range(33)),
        tuple(b"X-%d: x" % n for n in range(100)),
    ],
    ids=["one line", "some lines", "many lines"],
)
async def test_a_too_large_head_is_answered_431(on: Listening, headers: tuple[bytes, ...]) -> None:
    refusal = await on.ask(post(b"x", *headers))
    assert status(refusal) == 431
    assert b"connection: close" in refusal
    assert on.refused == ["head_too_large"]
    assert on.bodies == []


async def test_a_head_below_the_bound_is_accepted(on: Listening) -> None:
    answered = await on.ask(post(b"x", b"X: " + b"x" * 32_000, b"Connection: close"))
    assert status(answered) == 202


async def test_the_bound_of_a_head_also_holds_for_a_pipelined_request(on: Listening) -> None:
    async with await on.connect() as client:
        await client.send(post(b"first") + post(b"x", b"X: " + b"x" * 40_000))
        assert statuses(await rest(client)) == [202]
        assert on.bodies == [b"first"]
        assert on.refused == ["head_too_large"]


async def test_an_endless_head_is_answered_431(on: Listening) -> None:
    async with await on.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nX: ")
        for _ in range(33):
            await client.send(b"x" * 1000)
        assert status(await rest(client)) == 431


async def test_a_slow_head_is_answered_408() -> None:
    async with listening(header_timeout="100ms") as on, await on.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nX: ")
        answered = await dripping(client, b"X")
        assert status(answered) == 408
        assert on.refused == ["head_timeout"]


async def test_a_silent_connection_is_closed_without_an_answer() -> None:
    async with listening(header_timeout="100ms") as on, await on.connect() as client:
        assert await rest(client) == b""
        assert on.refused == ["silent"]


async def test_an_idle_connection_is_closed_without_an_answer() -> None:
    async with listening(keep_alive="100ms") as on, await on.connect() as client:
        await client.send(post())
        assert statuses(await rest(client)) == [202]
        assert on.refused == []


async def test_the_second_head_has_a_deadline_too() -> None:
    async with listening(header_timeout="100ms") as on, await on.connect() as client:
        await client.send(post())
        await one_answer(client)
        await client.send(b"P")
        assert status(await rest(client)) == 408


class Blocking(Echo):
    """Blocks the event loop, while a client sends the rest of a request."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Any = None

    def take(self, _scope: Any, _body: bytes, answer: Any) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
            time.sleep(0.4)
        headers = [(b"content-length", b"0")]
        answer(
            {"type": "http.response.start", "status": 202, "headers": headers},
            {"type": "http.response.body", "body": b""},
        )


async def test_a_blocked_loop_makes_no_sender_late() -> None:
    app = Blocking()
    async with listening(app, header_timeout="200ms") as on:
        with socket.create_connection(("127.0.0.1", on.port)) as late:
            late.sendall(post()[:10])
            await eventually(partial(a_request_comes, on))
            app.meanwhile = partial(late.sendall, post()[10:])
            assert status(await on.ask(post(b"x", b"Connection: close"))) == 202
            await eventually(partial(no_request_comes, on))
            assert status(late.recv(10_000)) == 202


# ------------------------------------------------------------------ the body


async def test_a_slow_body_is_answered_408() -> None:
    async with listening(body_timeout="100ms") as on, await on.connect() as client:
        await client.send(post(b"x" * 1000)[:-1000])
        answered = await dripping(client, b"x")
        assert status(answered) == 408
        assert b"connection: close" in answered
        assert on.refused == ["body_timeout"]
        assert on.bodies == []


async def test_endless_chunks_are_answered_408() -> None:
    async with listening(body_timeout="100ms") as on, await on.connect() as client:
        await client.send(CHUNKED)
        assert status(await dripping(client, b"5\r\nhello\r\n")) == 408


@pytest.mark.parametrize(
    "endless",
    [b"1;x=" + b"x" * 1000, b"x" * 1000, b"1\r\nx\r\n0\r\nX: " + b"x" * 1000],
    ids=["extension", "size", "trailer"],
)
async def test_framing_without_content_is_answered_400(on: Listening, endless: bytes) -> None:
    async with await on.connect() as client:
        await client.send(CHUNKED)
        await client.send(endless)
        with suppress(anyio.BrokenResourceError):
            for _ in range(200):
                await client.send(b"x" * 1000)
        assert status(await rest(client)) == 400
        assert on.bodies == []


async def test_small_chunks_are_accepted(on: Listening) -> None:
    async with await on.connect() as client:
        await client.send(CHUNKED + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n")
        assert status(await one_answer(client)) == 202
        assert on.bodies == [b"x" * 50_000]


async def test_a_trailer_is_not_a_header() -> None:
    seen: list[list[tuple[bytes, bytes]]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        seen.append(scope["headers"])
        await answer(send, 202, b"")

    async with listening(app) as on, await on.connect() as client:
        await client.send(CHUNKED + b"1\r\nx\r\n0\r\nX-Signature: y\r\n\r\n")
        assert status(await one_answer(client)) == 202
        assert seen == [[(b"host", b"x"), (b"transfer-encoding", b"chunked")]]


async def test_a_bounded_rest_of_a_refused_body_is_read() -> None:
    async with listening(Echo(early=429)) as on, await on.connect() as client:
        await client.send(CHUNKED)
        assert status(await one_answer(client)) == 429
        sent = 0
        with suppress(anyio.BrokenResourceError):
            while sent < 100_000_000:
                await client.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                sent += 0x10000
        assert sent < 50_000_000


@pytest.mark.parametrize("whole", [True, False])
async def test_an_unwanted_body_is_not_kept_in_memory(whole: bool) -> None:
    """The client stays connected; up to 256 KB of its body had arrived before the answer."""
    async with listening(Echo(early=429)) as on, await on.connect() as client:
        await client.send(CHUNKED + b"c350\r\n" + b"x" * 50_000 + b"\r\n" + b"0\r\n\r\n" * whole)
        assert status(await one_answer(client)) == 429
        (connection,) = on.listener._all()
        cycle = connection._latest
        assert cycle is not None
        assert cycle.body == b""


async def test_a_client_that_stays_after_its_answer_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inboxd.inbound.protocol._LINGER_SECONDS", 0.05)
    async with listening(Echo(early=429)) as on, await on.connect() as client:
        await client.send(CHUNKED)
        assert status(await rest(client)) == 429
        await eventually(partial(connections_are, on, 0))


async def test_an_application_that_reads_the_body_learns_of_the_deadline() -> None:
    told: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            pass
        told.append(message["type"])
        await answer(send, 202, b"never seen")

    async with listening(app, body_timeout="50ms") as on:
        assert statuses(await on.ask(post(b"12345")[:-1])) == [408]
        assert told == ["http.disconnect"]


# ------------------------------------------------------------------ invalid HTTP

SMUGGLING = {
    "length and encoding": b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    "encoding and length": b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    "two lengths": b"Content-Length: 3\r\nContent-Length: 3\r\n",
    "two other lengths": b"Content-Length: 3\r\nContent-Length: 4\r\n",
    "list of lengths": b"Content-Length: 3, 3\r\n",
    "signed length": b"Content-Length: +3\r\n",
    "huge length": b"Content-Length: 99999999999999999999999\r\n",
    "space before the colon": b"Content-Length : 3\r\n",
    "folded": b"A: b\r\n c\r\nContent-Length: 3\r\n",
    "bare LF": b"A: b\nContent-Length: 3\r\n",
    "bare CR": b"A: b\rContent-Length: 3\r\n",
    "NUL": b"A: b\x00\r\nContent-Length: 3\r\n",
    "no name": b": b\r\nContent-Length: 3\r\n",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "chunked, then another": b"Transfer-Encoding: chunked, identity\r\n",
    "another, then chunked": b"Transfer-Encoding: gzip, chunked\r\n",
    "identity, then chunked": b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
    "nearly chunked": b"Transfer-Encoding: xchunked\r\n",
    "encoding with a tab": b"Transfer-Encoding:\x0bchunked\r\n",
}


@pytest.mark.parametrize("lines", SMUGGLING.values(), ids=SMUGGLING)
async def test_requests_that_a_proxy_may_parse_differently_are_400(
    on: Listening, lines: bytes
) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n"
    refusal = await on.ask(head + b"3\r\nabc\r\n0\r\n\r\n")
    assert status(refusal) == 400
    fields, _, body = refusal.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in fields
    assert orjson.loads(body) == {"type": "about:blank", "title": "Bad Request", "status": 400}
    assert on.bodies == []
    assert on.refused == ["bad_request"]


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\nContent-Length: 3\n\nabc",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"POST / HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
        b"POST /\xff HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        CHUNKED + b"3\nabc\n0\n\n",
        CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"fffffffffffffffff\r\n",
        CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    ],
)
async def test_invalid_http_is_answered_400(on: Listening, sent: bytes) -> None:
    assert statuses(await on.ask(sent)) == [400]
    assert on.bodies == []


async def test_invalid_http_after_a_request_leaves_its_answer(on: Listening) -> None:
    async with await on.connect() as client:
        await client.send(post(b"good") + b"what is this\r\n\r\n")
        assert statuses(await rest(client)) == [202]
        assert on.bodies == [b"good"]
        assert on.refused == ["bad_request"]


# ------------------------------------------------------------------ connections


async def test_connections_beyond_the_maximum_wait_until_one_ends() -> None:
    async with listening(max_connections=2) as on:
        first, second = await on.connect(), await on.connect()
        for client in (first, second):
            await client.send(post())
            await one_answer(client)
        async with await on.connect() as third:
            await third.send(post(b"waits", b"Connection: close"))
            with anyio.move_on_after(0.05):
                await third.receive()
                raise AssertionError("the third connection was accepted")
            assert on.refused == ["connections"]
            await first.aclose()
            assert status(await rest(third)) == 202
        await second.aclose()


async def test_idle_connections_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inboxd.inbound.listener._IDLE_SECONDS", 0.05)
    async with listening(max_connections=1) as on, await on.connect() as idle:
        await idle.send(post())
        await one_answer(idle)
        async with await on.connect() as client:
            await client.send(post(b"x", b"Connection: close"))
            assert await rest(idle) == b""
            await idle.aclose()
            assert status(await rest(client)) == 202
        assert on.refused == ["connections"]


async def test_a_listener_filled_in_one_turn_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts eight connections in a turn: the last of them may be the last that fits."""
    monkeypatch.setattr("inboxd.inbound.listener._IDLE_SECONDS", 0.05)
    async with listening(max_connections=8, header_timeout="1h") as on:
        with ExitStack() as strangers:
            for _ in range(8):  # without a turn of the loop between: all wait in the kernel's queue
                strangers.enter_context(socket.create_connection(("127.0.0.1", on.port)))
            await eventually(partial(connections_are, on, 8))
            assert status(await on.ask(post(b"x", b"Connection: close"))) == 202


async def test_connections_with_slow_heads_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inboxd.inbound.listener._IDLE_SECONDS", 0.05)
    async with listening(max_connections=2, header_timeout="1h") as on:
        async with await on.connect() as first, await on.connect() as second:
            for client in (first, second):
                await client.send(b"POST / HTTP/1.1\r\nX")
            await eventually(partial(connections_are, on, 2))
            assert status(await on.ask(post(b"x", b"Connection: close"))) == 202
            assert {status(await rest(each)) for each in (first, second)} == {408}
        assert set(on.refused) == {"connections", "head_timeout"}


async def test_connections_with_slow_bodies_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inboxd.inbound.backpressure._GRACE_SECONDS", 0.05)
    async with listening(max_connections=2, body_timeout="1h") as on:
        async with await on.connect() as first, await on.connect() as second:
            for client in (first, second):
                await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1")
            await eventually(partial(connections_are, on, 2))
            assert status(await on.ask(post(b"x", b"Connection: close"))) == 202
            assert {status(await rest(each)) for each in (first, second)} == {408}
        assert set(on.refused) == {"connections", "body_timeout"}


async def test_a_thousand_idle_connections_cost_little() -> None:
    async with listening(header_timeout="60s") as on, AsyncExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < 4096:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for _ in range(1000):
            client = socket.create_connection(("127.0.0.1", on.port))
            stack.callback(client.close)
        await eventually(partial(connections_are, on, 1000))
        size, _ = tracemalloc.get_traced_memory()
        assert size < 20_000_000
        assert status(await on.ask(post(b"x", b"Connection: close"))) == 202


async def test_memory_is_flat_under_a_flood_of_heads() -> None:
    async with listening() as on:
        tracemalloc.start()
        try:
            for _ in range(20):
                async with await on.connect() as client:
                    await client.send(b"POST / HTTP/1.1\r\n")
                    with suppress(anyio.BrokenResourceError):
                        for _ in range(100):
                            await client.send(b"a:\r\n" * 2500)
                    assert status(await rest(client)) == 431
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8_000_000


async def connections_are(on: Listening, count: int) -> bool:
    return on.listener.connections == count


async def a_request_comes(on: Listening) -> bool:
    return not all(each.is_idle for each in on.listener._all())


async def no_request_comes(on: Listening) -> bool:
    return not await a_request_comes(on)


async def dripping(client: SocketStream, drop: bytes) -> bytes:
    """Send a byte every few milliseconds until there is an answer, and return it."""
    async with anyio.create_task_group() as group:

        async def drip() -> None:
            with suppress(anyio.BrokenResourceError):
                while True:
                    await client.send(drop)
                    await anyio.sleep(0.005)

        group.start_soon(drip)
        answered = await one_answer(client)
        group.cancel_scope.cancel()
    return answered
