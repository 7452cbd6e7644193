"""Requests that are whole after one read: taken without a task, with the same answers."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.inbound.listening import Echo, listening, one_answer, post, rest, status, statuses
from tests.support import eventually

pytestmark = pytest.mark.anyio

Answer = Callable[[Mapping[str, Any], Mapping[str, Any]], None]


class Taking(Echo):
    """Takes whole requests; answers them at once, or when the test wants it."""

    def __init__(self, *, late: bool = False) -> None:
        super().__init__()
        self.taken: list[tuple[str, bytes]] = []
        self.waiting: deque[tuple[Answer, bytes]] = deque()
        self._late = late

    def take(self, scope: dict[str, Any], body: bytes, answer: Answer) -> None:
        self.taken.append((scope["path"], body))
        assert (scope["type"], scope["method"]) == ("http", "POST")
        assert scope["client"][0] == "127.0.0.1"
        assert (b"host", b"x") in scope["headers"]
        self.waiting.append((answer, body))
        if not self._late:
            self.answer_one()

    def answer_one(self) -> None:
        answer, body = self.waiting.popleft()
        headers = [(b"content-length", b"%d" % len(body))]
        answer(
            {"type": "http.response.start", "status": 202, "headers": headers},
            {"type": "http.response.body", "body": body},
        )


async def _until(condition: Callable[[], object]) -> None:
    async def holds() -> bool:
        return bool(condition())

    await eventually(holds)


async def test_requests_one_after_the_other_are_answered() -> None:
    app = Taking()
    async with listening(app) as on, await on.connect() as client:
        for body in (b"a", b"", b"bc"):
            await client.send(post(body))
            answer = await one_answer(client)
            assert answer.startswith(b"HTTP/1.1 202 Accepted\r\ndate: ")
            assert answer.endswith(b"\r\n\r\n" + body)
            assert b"connection" not in answer.lower()
    assert app.taken == [("/in/x", b"a"), ("/in/x", b""), ("/in/x", b"bc")]
    assert app.bodies == []


async def test_a_chunked_request_may_be_whole_too() -> None:
    app = Taking()
    async with listening(app) as on, await on.connect() as client:
        head = b"POST /in/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        await client.send(head + b"1\r\na\r\n2\r\nbc\r\n0\r\nlate: header\r\n\r\n")
        assert (await one_answer(client)).endswith(b"abc")
    assert app.taken == [("/in/x", b"abc")]


@pytest.mark.parametrize(
    "sent",
    [
        post().replace(b"POST", b"PUT"),
        post().replace(b"/in/x", b"/in/%78"),
        post().replace(b"/in/x", b"/in/x?y=1"),
        post().replace(b"/in/x", b"http://x/in/x"),
        post(b"hello", b"Expect: 100-continue"),
    ],
)
async def test_special_requests_go_through_asgi(sent: bytes) -> None:
    app = Taking()
    async with listening(app) as on, await on.connect() as client:
        await client.send(sent)
        assert status(await one_answer(client)) in (100, 202)
        await _until(lambda: app.bodies)
    assert app.taken == []


async def test_requests_in_pieces_go_through_asgi() -> None:
    app = Taking()
    large = b"x" * 500_000
    async with listening(app) as on, await on.connect() as client:
        for byte in post(b"slow"):
            await client.send(bytes([byte]))
        assert status(await one_answer(client)) == 202
        await client.send(post(large))
        assert status(await one_answer(client)) == 202
    assert app.bodies == [b"slow", large]
    assert app.taken == []


async def test_answers_are_in_the_order_of_the_requests() -> None:
    app = Taking(late=True)
    async with listening(app) as on, await on.connect() as client:
        await client.send(post(b"1") + post(b"2") + post(b"3", b"Connection: close"))
        await _until(lambda: app.waiting)
        assert app.bodies == []
        app.answer_one()
        answers = await rest(client)
    assert statuses(answers) == [202, 202, 202]
    assert app.taken == [("/in/x", b"1")]
    assert app.bodies == [b"2", b"3"]


async def test_connection_close_ends_the_connection() -> None:
    app = Taking()
    async with listening(app) as on:
        answer = await on.ask(post(b"x", b"Connection: close"))
        assert status(answer) == 202
        assert answer.lower().count(b"connection: close") == 1
    assert app.taken == [("/in/x", b"x")]


async def test_a_client_that_shuts_its_writing_side_gets_the_answer() -> None:
    app = Taking(late=True)
    async with listening(app) as on, await on.connect() as client:
        await client.send(post())
        await client.send_eof()
        await _until(lambda: app.waiting)
        app.answer_one()
        assert status(await rest(client)) == 202


async def test_a_disconnected_client_gets_no_answer() -> None:
    app = Taking(late=True)
    async with listening(app) as on:
        # A plain socket: some versions of anyio shut the writing side before the reset.
        with socket.create_connection(("127.0.0.1", on.port)) as gone:
            gone.sendall(post())
            await _until(lambda: app.waiting)
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        await _until(lambda: not on.listener.connections)
        app.answer_one()
        # The next request is served.
        async with await on.connect() as client:
            await client.send(post(b"next"))
            await _until(lambda: app.waiting)
            app.answer_one()
            assert (await one_answer(client)).endswith(b"next")


async def test_an_answer_during_a_drain_closes_the_connection() -> None:
    app = Taking(late=True)
    async with listening(app) as on, await on.connect() as client:
        await client.send(post())
        await _until(lambda: app.waiting)
        draining = asyncio.create_task(on.listener.drain(5))
        await _until(lambda: on.listener._shared.draining)
        app.answer_one()
        answer = await rest(client)
        await client.aclose()
        await draining
    assert status(answer) == 202
    assert b"connection: close" in answer.lower()
