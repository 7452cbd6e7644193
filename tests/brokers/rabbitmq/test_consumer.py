"""A consumer from RabbitMQ: which messages come, which come again, and a single consumer."""

import datetime as dt
import uuid
from hashlib import sha256

import anyio
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from pamqp.common import FieldTable

from inboxd.brokers.contract import Consumer, IncomingMessage, LeftOutBody
from inboxd.brokers.rabbitmq import amqp
from inboxd.brokers.rabbitmq.servers import connect
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker
from tests.brokers.rabbitmq.published import (
    Told,
    a_message,
    bodies_of,
    consumer_at,
    count_of,
    publisher_at,
    some_messages,
)
from tests.support.verdicts import Late, safety
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

_WITHIN = patient()


async def _fill(broker: Broker, queue: AbstractQueue, count: int) -> None:
    """Publish messages 0 to `count` - 1."""
    async with publisher_at(broker) as publisher:
        await publisher.publish(some_messages(queue.name, count), told := Told())
    assert len(told.confirmed) == count


async def _received(consumer: Consumer, count: int) -> list[IncomingMessage]:
    found: list[IncomingMessage] = []
    while len(found) < count:
        page = await consumer.receive(count - len(found), _WITHIN)
        if not page:
            raise Late(f"only {len(found)} of {count} came")
        found += page
    return found


async def test_a_message_has_the_properties_of_its_sender(
    broker: Broker, channel: AbstractChannel, queue: AbstractQueue
) -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    message = Message(
        b'{"a": 1}',
        headers={
            "cloudEvents:Type": "a.b",
            "Number": 5,
            "Small": -3,
            "Yes": True,
            "At": at,
            "Half": 0.5,
            "Raw": bytearray(b"\xe4"),
            "None": None,
            "x-death": [{"reason": "expired"}],
            "last": "zwölf",
            "type": "spoofed",
        },
        content_type="application/json",
        message_id="m-1",
        timestamp=at,
        type="order.paid",
        app_id="shop",
        priority=3,
    )
    exchange = await channel.get_exchange("amq.topic")
    await queue.bind(exchange, f"{queue.name}.#")
    await exchange.publish(message, f"{queue.name}.a")
    async with consumer_at(broker, queue.name) as consumer:
        (came,) = await consumer.receive(10, _WITHIN)
    assert came == IncomingMessage(
        stream=queue.name,
        position=None,
        body=b'{"a": 1}',
        sent_to=f"{queue.name}.a",
        content_type="application/json",
        headers={
            "cloudevents:type": "a.b",
            "number": "5",
            "small": "-3",
            "yes": "true",
            "at": "2026-01-02T03:04:05Z",
            "half": "0.5",
            "raw": "ä",
            "last": "zwölf",
            "type": "order.paid",
            "content-type": "application/json",
            "message-id": "m-1",
            "app-id": "shop",
        },
        id="m-1",
        sent_at=at.timestamp(),
        token=1,
    )


async def test_a_body_that_is_too_large_is_kept_as_size_and_hash(
    broker: Broker, channel: AbstractChannel, queue: AbstractQueue
) -> None:
    bodies = [b"x" * 1000, b"y" * 300_000, b"z" * 1001, b"", b"x" * 999]  # of one to three frames
    for body in bodies:
        await channel.default_exchange.publish(Message(body, message_id="m"), queue.name)
    async with consumer_at(broker, queue.name, max_body=1000) as consumer:
        came = await _received(consumer, 5)
    assert [message.body for message in came] == [bodies[0], b"", b"", b"", bodies[4]]
    assert [message.left_out for message in came] == [
        LeftOutBody(len(body), sha256(body).hexdigest()) if len(body) > 1000 else None
        for body in bodies
    ]
    assert {message.id for message in came} == {"m"}


async def test_unacknowledged_messages_come_again(broker: Broker, queue: AbstractQueue) -> None:
    await _fill(broker, queue, 10)
    async with consumer_at(broker, queue.name) as consumer:
        first = await _received(consumer, 10)
        assert not any(message.redelivered for message in first)
        await consumer.acknowledge(first[:4])
        await consumer.acknowledge([])
    async with consumer_at(broker, queue.name) as consumer:
        again = await _received(consumer, 6)
        with safety():
            assert [message.body for message in again] == [b"4", b"5", b"6", b"7", b"8", b"9"]
            assert all(message.redelivered for message in again)
        for message in (again[1], again[3]):  # others between them stay unacknowledged
            await consumer.acknowledge([message])
        await consumer.acknowledge(again[4:])
    with safety():
        assert await bodies_of(queue) == [b"4", b"6"]


async def test_at_most_prefetch_messages_are_held(broker: Broker, queue: AbstractQueue) -> None:
    """A page has at most the requested number; the others are the next page."""
    await _fill(broker, queue, 100)
    async with consumer_at(broker, queue.name, prefetch=30) as consumer:
        page = await _received(consumer, 20)
        assert [*await consumer.receive(100, _WITHIN)] != []
        assert await consumer.receive(100, 0.01) == []
        assert await consumer.lag() == 70
        await consumer.acknowledge(page)
        assert await _received(consumer, 20)
        assert await consumer.lag() == 50


async def test_a_wait_without_messages_ends_in_time(broker: Broker, queue: AbstractQueue) -> None:
    """A wait that ends without a message, or is cancelled, takes no message from the next wait."""
    async with consumer_at(broker, queue.name) as consumer:
        assert await consumer.receive(10, 0.01) == []
        with anyio.move_on_after(0.01):
            await consumer.receive(10, _WITHIN)
        await _fill(broker, queue, 1)
        assert len(await consumer.receive(10, _WITHIN)) == 1


async def test_an_unreadable_property_does_not_block_the_queue(
    broker: Broker, queue: AbstractQueue
) -> None:
    """A time in nanoseconds, which ends the connection of a plain client."""
    connection = await connect("main", broker, "tests")
    message = a_message(queue.name, id="n-1")
    stamp = amqp.stamp(1_700_000_000_000_000_000)
    connection.send(amqp.published(message, stamp, connection.frame_max))
    await connection.close()
    await _fill(broker, queue, 1)
    async with consumer_at(broker, queue.name) as consumer:
        first, second = await _received(consumer, 2)
    assert (first.id, first.sent_at) == ("n-1", None)
    with safety():
        assert second.body == b"0"


async def test_a_second_consumer_is_refused(broker: Broker, queue: AbstractQueue) -> None:
    async with consumer_at(broker, queue.name):
        await _is_in_use(broker, queue)
    async with consumer_at(broker, queue.name):
        pass


async def test_a_consumer_of_another_program_is_not_joined(
    broker: Broker, queue: AbstractQueue
) -> None:
    async def take(message: AbstractIncomingMessage) -> None:
        await message.ack()

    tag = await queue.consume(take)
    await _is_in_use(broker, queue)
    await queue.cancel(tag)


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-single-active-consumer": True},
        {"x-queue-type": "quorum"},
        {"x-queue-type": "quorum", "x-single-active-consumer": True},
    ],
)
async def test_queues_of_other_kinds_have_a_single_consumer(
    broker: Broker, channel: AbstractChannel, arguments: FieldTable
) -> None:
    queue = await channel.declare_queue(uuid.uuid4().hex, durable=True, arguments=arguments)
    await _fill(broker, queue, 3)
    async with consumer_at(broker, queue.name) as consumer:
        came = await _received(consumer, 3)
        await _is_in_use(broker, queue)
        await consumer.acknowledge(came)
    with safety():
        assert await count_of(queue) == 0
    await queue.delete(if_unused=False, if_empty=False)


async def test_a_stream_is_refused(broker: Broker, channel: AbstractChannel) -> None:
    arguments: FieldTable = {"x-queue-type": "stream"}
    queue = await channel.declare_queue(uuid.uuid4().hex, durable=True, arguments=arguments)
    with pytest.raises(BrokerUnavailable, match="if that is a stream, name it by rabbitmq_stream"):
        async with consumer_at(broker, queue.name):
            pass
    await queue.delete(if_unused=False, if_empty=False)


async def _is_in_use(broker: Broker, queue: AbstractQueue) -> None:
    with pytest.raises(BrokerUnavailable) as told:
        async with consumer_at(broker, queue.name):
            pass
    assert str(told.value) == (
        f"broker 'main' at {broker.servers[0]} has another consumer of queue {queue.name!r}, and "
        "only a single consumer keeps its order: stop that one, unless it is another worker of "
        "this inbox."
    )
