"""A publisher to RabbitMQ whose server is cut off, slow, hangs, is out of memory, or dies."""

import array
import fcntl
import functools
import socket
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

import anyio
import pytest
from aio_pika.abc import AbstractQueue
from structlog.testing import capture_logs

from inboxd.brokers.contract import OutgoingMessage, Publisher
from inboxd.brokers.rabbitmq import connection
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker
from tests.brokers.rabbitmq.published import (
    Told,
    broker_at,
    count_of,
    messages_of,
    publisher_at,
    some_messages,
)
from tests.support.rabbitmq import RabbitMQServer, plain_channel
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.verdicts import safety
from tests.support.waiting import bounded, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def proxy(server: RabbitMQServer) -> Iterator[TcpProxy]:
    """A proxy before the server, whose connections a test can cut."""
    with tcp_proxy(server.host, server.port) as running:
        yield running


async def test_a_cut_before_the_confirmations_leaves_messages_without_results(
    proxy: TcpProxy, queue: AbstractQueue
) -> None:
    """Reported messages are stored; others may be, and get no result."""
    page = some_messages(queue.name, 500)
    first, second = Told(), Told()
    async with publisher_at(broker_at(proxy.address)) as publisher:
        await publisher.publish(page[:200], first)
        with proxy.hold("to_client"):
            async with anyio.create_task_group() as tasks:

                async def cut() -> None:
                    await eventually(functools.partial(_has, queue, 500))
                    proxy.cut()

                tasks.start_soon(cut)
                with pytest.raises(BrokerUnavailable, match="closed the connection"):
                    await publisher.publish(page[200:], second)
        with pytest.raises(BrokerUnavailable):
            await publisher.publish(page, second)
    with safety():
        assert first.confirmed == [*range(200)]
        assert not second.errors


async def test_slow_confirmations_are_waited_for(proxy: TcpProxy, queue: AbstractQueue) -> None:
    told = Told()
    async with (
        publisher_at(broker_at(proxy.address)) as publisher,
        anyio.create_task_group() as tasks,
    ):
        with proxy.hold("to_client"):
            tasks.start_soon(publisher.publish, some_messages(queue.name, 100), told)
            await eventually(functools.partial(_has, queue, 100))
            assert not told.errors
    with safety():
        assert told.confirmed == [*range(100)]


async def test_a_cancelled_publish_sends_nothing_later(
    server: RabbitMQServer, proxy: TcpProxy, queue: AbstractQueue
) -> None:
    """Even unsent data in the system's buffers is dropped."""
    page = some_messages(queue.name, 2000, size=20_000)
    told = Told()
    async with publisher_at(broker_at(proxy.address)) as publisher:
        with proxy.hold("to_server"):
            with anyio.move_on_after(0.5):  # as the relay's timeout does
                await publisher.publish(page, told)
                pytest.fail("a server that hangs confirms nothing")
            assert not told.errors
            await anyio.wait_all_tasks_blocked()  # so that the loop has closed the socket
            arrived = 65_536 + _unread(proxy._links[0]._ends[0])  # bytes that the proxy has read
        await eventually(functools.partial(_alone, server))
    with safety():
        assert await count_of(queue) * 20_000 < arrived


async def test_close_does_not_wait_for_a_frozen_server(
    server: RabbitMQServer, queue: AbstractQueue
) -> None:
    async with publisher_at(broker_at(server.address, connect_timeout="1h")) as publisher:
        with server.frozen(), bounded():
            with anyio.move_on_after(0.1):
                await publisher.publish(some_messages(queue.name, 1), Told())
            await publisher.close()


async def test_a_server_out_of_memory_takes_messages_once_it_has_some(
    server: RabbitMQServer, broker: Broker, queue: AbstractQueue
) -> None:
    """The log reports it; for the relay the server is only slow."""
    told = Told()
    with capture_logs() as logs:

        async def logged(event: str) -> bool:
            return any(event == each["event"] for each in logs)

        async def alarmed() -> bool:
            return server.evaluate("rabbit_alarm:get_alarms()").strip() != "[]"

        async with publisher_at(broker) as publisher, anyio.create_task_group() as tasks:
            server.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.00001)")
            try:
                await eventually(alarmed)
                tasks.start_soon(publisher.publish, some_messages(queue.name, 10), told)
                await eventually(functools.partial(logged, "RabbitMQ takes no messages"))
                assert not told.errors
            finally:
                server.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.4)")
        assert await logged("RabbitMQ takes messages again")
    with safety():
        assert told.confirmed == [*range(10)]


async def test_a_server_that_falls_silent_is_lost(
    proxy: TcpProxy, queue: AbstractQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing heartbeats show it, though the connection is still open."""
    monkeypatch.setattr(connection, "_HEARTBEAT", 1)
    async with publisher_at(broker_at(proxy.address)) as publisher:
        with proxy.swallow(), pytest.raises(BrokerUnavailable, match="has sent nothing for two"):
            await publisher.publish(some_messages(queue.name, 1), Told())


@pytest.mark.long
@pytest.mark.parametrize("how", ["TERM", "KILL"])
async def test_a_server_restarted_under_load_has_all_messages_in_order(
    server: RabbitMQServer, broker: Broker, how: Literal["TERM", "KILL"]
) -> None:
    """In the end all messages arrived, at least once and in order."""
    name = f"restarted-{how}"
    async with plain_channel(server) as channel:
        await channel.declare_queue(name, durable=True)
    server.keep_declared()
    pages: list[list[OutgoingMessage]] = []
    begun, refused, again = anyio.Event(), anyio.Event(), anyio.Event()

    async def publish_all() -> None:
        while not again.is_set():
            pages.append(some_messages(name, 100))
            left = pages[-1]
            while left:
                try:
                    async with publisher_at(broker) as publisher:
                        left = await _published(publisher, left)
                        begun.set()
                except BrokerUnavailable:
                    refused.set()
                    await anyio.sleep(0.02)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publish_all)
        await begun.wait()
        await anyio.to_thread.run_sync(server.stop, how)
        await refused.wait()
        await anyio.to_thread.run_sync(server.start)
        again.set()
    published = [message.id for page in pages for message in page]
    async with plain_channel(server) as channel:
        came = await messages_of(await channel.get_queue(name))
    with safety():
        assert [*dict.fromkeys(message.message_id for message in came)] == published


async def _published(
    publisher: Publisher, messages: list[OutgoingMessage]
) -> list[OutgoingMessage]:
    """Publish messages; returns those that must be published again."""
    told = Told()
    with suppress(BrokerUnavailable):
        await publisher.publish(messages, told)
    assert not told.refused
    return [each for place, each in enumerate(messages) if place not in told.errors]


async def _has(queue: AbstractQueue, count: int) -> bool:
    return await count_of(queue) == count


def _unread(end: socket.socket) -> int:
    """The number of bytes that have arrived there."""
    found = array.array("i", [0])
    fcntl.ioctl(end, termios.FIONREAD, found)
    return found[0]


async def _alone(server: RabbitMQServer) -> bool:
    """Whether only the plain client is connected."""
    return server.evaluate("length(rabbit_networking:local_connections())") == "1"
