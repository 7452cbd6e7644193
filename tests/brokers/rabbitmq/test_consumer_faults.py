"""A consumer from RabbitMQ whose queue or server goes away, or whose time limits pass."""

import functools
import uuid
from typing import Literal

import anyio
import pytest
from aio_pika.abc import AbstractChannel, AbstractQueue

from inboxd.brokers.contract import Consumer, IncomingMessage
from inboxd.brokers.rabbitmq import connection
from inboxd.errors import BrokerUnavailable, StreamLost
from inboxd.settings import Broker
from tests.brokers.rabbitmq.published import (
    Told,
    broker_at,
    consumer_at,
    count_of,
    publisher_at,
    some_messages,
)
from tests.support.rabbitmq import RabbitMQServer, plain_channel
from tests.support.tcp_proxy import tcp_proxy
from tests.support.verdicts import safety
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

_WITHIN = patient()


async def test_a_missing_queue_is_one_clear_line(broker: Broker) -> None:
    with pytest.raises(BrokerUnavailable) as told:
        async with consumer_at(broker, "nowhere"):
            pass
    assert str(told.value) == (
        f"broker 'main' at {broker.servers[0]} has no queue 'nowhere': declare it, or correct "
        "rabbitmq_queue of [inbound.messages.orders]."
    )


async def test_a_queue_deleted_meanwhile_is_lost(broker: Broker, queue: AbstractQueue) -> None:
    """A waiting `receive` fails at once."""
    async with consumer_at(broker, queue.name) as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(functools.partial(queue.delete, if_unused=False))
        with pytest.raises(StreamLost) as told:
            await consumer.receive(10, _WITHIN)
    assert str(told.value) == (
        f"queue {queue.name!r} was deleted, and with it what was not acknowledged: declare it "
        "again, or correct rabbitmq_queue of [inbound.messages.orders]."
    )


async def test_a_queue_made_anew_at_once_is_an_error(
    broker: Broker, channel: AbstractChannel, queue: AbstractQueue
) -> None:
    """Our consumer read the deleted queue, and does not read the new one."""
    async with consumer_at(broker, queue.name) as consumer:
        await queue.delete(if_unused=False)
        again = await channel.declare_queue(queue.name, durable=True)
        with pytest.raises(BrokerUnavailable, match="has ended our consumption of queue"):
            await consumer.receive(10, _WITHIN)
    async with consumer_at(broker, queue.name):
        pass
    await again.delete()


async def test_messages_come_again_after_a_late_acknowledgement(
    server: RabbitMQServer, broker: Broker, queue: AbstractQueue
) -> None:
    """RabbitMQ closes the channel (consumer_timeout), and all messages come again."""
    before = server.evaluate("application:get_env(rabbit, consumer_timeout)")
    assert before == "{ok, 1800000}"
    async with publisher_at(broker) as publisher:
        await publisher.publish(some_messages(queue.name, 3), Told())
    server.evaluate("application:set_env(rabbit, consumer_timeout, 200)")
    try:
        async with consumer_at(broker, queue.name) as consumer:
            late = await consumer.receive(10, _WITHIN)
            with pytest.raises(BrokerUnavailable) as told:
                await _received_until_lost(consumer)
            with pytest.raises(BrokerUnavailable):
                await consumer.acknowledge(late)
    finally:
        server.evaluate("application:set_env(rabbit, consumer_timeout, 1800000)")
    assert "raise RabbitMQ's consumer_timeout, or lower prefetch of [inb" in str(told.value)
    async with consumer_at(broker, queue.name) as consumer:
        again: list[IncomingMessage] = []
        while len(again) < 3:
            again += await consumer.receive(10, _WITHIN)
    with safety():
        assert all(message.redelivered for message in again)


async def test_a_cut_connection_hands_over_no_held_message(
    server: RabbitMQServer, queue: AbstractQueue
) -> None:
    """Held messages are not handed over: they could not be acknowledged."""
    with tcp_proxy(server.host, server.port) as proxy:
        async with consumer_at(broker_at(proxy.address), queue.name) as consumer:
            async with publisher_at(broker_at(server.address)) as publisher:
                await publisher.publish(some_messages(queue.name, 10), Told())
            (first,) = await consumer.receive(1, _WITHIN)
            assert await consumer.lag() == 0  # 0 means that the consumer holds the others
            proxy.cut()
            with pytest.raises(BrokerUnavailable):
                await consumer.lag()
            with pytest.raises(BrokerUnavailable, match="closed the connection"):
                await consumer.receive(1, _WITHIN)
            with pytest.raises(BrokerUnavailable):
                await consumer.acknowledge([first])


async def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(
    server: RabbitMQServer, queue: AbstractQueue
) -> None:
    with tcp_proxy(server.host, server.port) as proxy:
        async with (
            publisher_at(broker_at(server.address)) as publisher,
            consumer_at(broker_at(proxy.address), queue.name, prefetch=1) as consumer,
        ):
            await publisher.publish(some_messages(queue.name, 3), Told())
            await consumer.receive(1, _WITHIN)
            with proxy.hold("to_client"), anyio.move_on_after(0.1):
                await consumer.lag()
                pytest.fail("its answer is held")
            await publisher.publish(some_messages(queue.name, 4), Told())
            assert await consumer.lag() == 6


async def test_a_server_that_falls_silent_is_lost(
    server: RabbitMQServer, queue: AbstractQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_HEARTBEAT", 1)
    with tcp_proxy(server.host, server.port) as proxy:
        async with consumer_at(broker_at(proxy.address), queue.name) as consumer:
            with (
                proxy.swallow(),
                pytest.raises(BrokerUnavailable, match="has sent nothing for two"),
            ):
                await consumer.receive(1, _WITHIN)


async def test_a_call_without_an_answer_is_a_lost_server(
    server: RabbitMQServer, queue: AbstractQueue
) -> None:
    """A call has a time limit, and so has the close."""
    with tcp_proxy(server.host, server.port) as proxy:
        broker = broker_at(proxy.address, connect_timeout="200ms")
        async with consumer_at(broker, queue.name) as consumer:
            with proxy.hold(), pytest.raises(BrokerUnavailable, match=r"not answer within 0\.2 s"):
                await consumer.lag()


@pytest.mark.long
@pytest.mark.parametrize("how", ["TERM", "KILL"])
async def test_unacknowledged_messages_outlive_a_restart_of_the_server(
    server: RabbitMQServer, broker: Broker, how: Literal["TERM", "KILL"]
) -> None:
    name = uuid.uuid4().hex
    async with plain_channel(server) as channel:
        await channel.declare_queue(name, durable=True)
    server.keep_declared()
    async with publisher_at(broker) as publisher:
        await publisher.publish(some_messages(name, 100), Told())
    async with consumer_at(broker, name, prefetch=50) as consumer:
        await consumer.acknowledge(await consumer.receive(10, _WITHIN))
        await consumer.lag()  # RabbitMQ has read the acknowledgements
        await anyio.to_thread.run_sync(server.stop, how)
        with pytest.raises(BrokerUnavailable):
            await _received_until_lost(consumer)
    with pytest.raises(BrokerUnavailable, match="cannot be reached"):
        async with consumer_at(broker, name):
            pass
    await anyio.to_thread.run_sync(server.start)
    async with plain_channel(server) as channel:
        left = await count_of(await channel.get_queue(name))
    with safety():
        assert left == 90 if how == "TERM" else left >= 90


async def _received_until_lost(consumer: Consumer) -> None:
    while True:
        await consumer.receive(10, _WITHIN)
