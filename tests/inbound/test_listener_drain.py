"""The drain of a listener, with connected clients and with processes that share its socket."""

import os
import socket
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from inboxd.inbound.listener import without_news
from tests.inbound.listening import (
    bound,
    listening,
    one_answer,
    post,
    rest,
    status,
    statuses,
)
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inboxd.inbound.listener._IDLE_SECONDS", 0.4)
    monkeypatch.setattr("inboxd.inbound.protocol._LINGER_SECONDS", 0.2)


class Client:
    """Sends one request after the other, over a connection as long as it stays open."""

    def __init__(self, port: int, name: int, *, keep_alive: bool) -> None:
        self._port, self._name, self._keep_alive = port, name, keep_alive
        self.answered: list[bytes] = []
        self.refused = 0

    async def run(self, until: anyio.Event) -> None:
        """Send until the event. A lost request or a reset raises."""
        while not until.is_set():
            try:
                stream = await anyio.connect_tcp("127.0.0.1", self._port)
            except OSError:
                self.refused += 1
                return
            async with stream:
                while not until.is_set() and await self._ask(stream):
                    pass

    async def _ask(self, stream: Any) -> bool:
        body = b"%d-%d" % (self._name, len(self.answered))
        await stream.send(post(body, *(() if self._keep_alive else (b"Connection: close",))))
        answered = await one_answer(stream)
        assert status(answered) == 202
        self.answered.append(body)
        return b"connection: close" not in answered


async def test_no_request_is_lost_by_a_drain_under_load() -> None:
    over = anyio.Event()
    async with listening() as on:
        clients = [Client(on.port, name, keep_alive=name % 2 == 0) for name in range(30)]
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(client.run, over)
            while len(on.bodies) < 300:
                await anyio.lowlevel.checkpoint()
            await on.listener.drain(5.0)
        assert all(client.refused for client in clients)
        answered = [body for client in clients for body in client.answered]
        assert Counter(answered) == Counter(on.bodies)
        assert on.listener.connections == 0


async def test_one_of_two_listeners_on_a_socket_drains_without_refusals() -> None:
    over = anyio.Event()
    mine = bound()
    theirs = socket.socket(fileno=os.dup(mine.fileno()))
    async with listening(sockets=[mine]) as on, listening(sockets=[theirs]) as other:
        clients = [Client(on.port, name, keep_alive=name % 2 == 0) for name in range(30)]
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(client.run, over)
            while len(on.bodies) < 300 or len(other.bodies) < 300:
                await anyio.lowlevel.checkpoint()
            await on.listener.drain(5.0)
            before = len(other.bodies)
            while len(other.bodies) < before + 300:
                await anyio.lowlevel.checkpoint()
            over.set()
        assert not any(client.refused for client in clients)
        answered = [body for client in clients for body in client.answered]
        assert Counter(answered) == Counter(on.bodies + other.bodies)


async def test_requests_in_the_queue_of_an_own_socket_are_answered() -> None:
    async with listening() as on:
        with socket.create_connection(("127.0.0.1", on.port)) as queued:
            queued.sendall(post(b"queued"))
            await on.listener.drain(5.0)
            assert status(queued.recv(10_000)) == 202
            assert on.bodies == [b"queued"]


async def test_a_connection_with_unread_data_is_not_idle() -> None:
    async with listening() as on, await on.connect() as quiet:
        with socket.create_connection(("127.0.0.1", on.port)) as sending:
            await quiet.send(post())
            await one_answer(quiet)
            while len(connections := on.listener._all()) < 2:
                await anyio.lowlevel.checkpoint()
            sending.sendall(post())
            assert all(each.is_idle for each in connections)
            (idle,) = without_news(connections)
            assert idle.client != sending.getsockname()


async def test_a_request_in_progress_is_finished() -> None:
    async with listening() as on, await on.connect() as client:
        await client.send(post(b"hello")[:-2])
        async with anyio.create_task_group() as group:
            group.start_soon(on.listener.drain, 5.0)
            await anyio.sleep(0.8)  # longer than an idle connection is kept
            await client.send(b"lo")
            answered = await rest(client)
            assert statuses(answered) == [202]
            assert b"connection: close" in answered


@pytest.mark.parametrize("connected", [0, 1])
async def test_all_pipelined_requests_are_answered(connected: int) -> None:
    async with listening() as on, await on.connect() as client:
        await client.send(post(b"1") + post(b"2") + post(b"3"))
        while on.listener.connections < connected:
            await anyio.lowlevel.checkpoint()
        await on.listener.drain(5.0)
        answered = await rest(client)
        assert statuses(answered) == [202, 202, 202]
        assert answered.count(b"connection: close") == 1


async def test_a_request_that_crosses_the_closing_is_not_reset() -> None:
    async with listening() as on, await on.connect() as client:
        await client.send(post(b"1"))
        await one_answer(client)
        async with anyio.create_task_group() as group:
            group.start_soon(on.listener.drain, 5.0)
            assert await rest(client) == b""
            await client.send(post(b"2"))
            assert await rest(client) == b""
            assert on.bodies == [b"1"]
            await client.aclose()


async def test_a_drain_ends_within_its_bound() -> None:
    told: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            told.append("cancelled")

    async with listening(app) as on, await on.connect() as client:
        await client.send(post())
        with bounded():
            await on.listener.drain(0.1)
            with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                await client.receive()
    assert told == ["cancelled"]


async def test_serving_ends_after_a_drain() -> None:
    async with listening() as on:
        await on.listener.drain(1.0)


async def test_a_cancelled_listener_ends_its_connections() -> None:
    async with AsyncExitStack() as stack:
        async with listening() as on:
            client = await stack.enter_async_context(await on.connect())
            await client.send(post())
            await one_answer(client)
        assert on.listener.connections == 0
        with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            await client.receive()
