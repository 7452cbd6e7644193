"""A publisher to RabbitMQ: which messages arrive, are confirmed, or refused, and why."""

import dataclasses
import time
import uuid

import anyio
import pytest
from aio_pika import DeliveryMode
from aio_pika.abc import AbstractChannel, AbstractQueue
from pamqp.common import FieldTable

from inboxd.brokers import cloud_events
from inboxd.brokers.cloud_events import CloudEvent
from inboxd.brokers.contract import IncomingMessage, OutgoingMessage
from inboxd.brokers.rabbitmq.connection import AmqpClosed
from inboxd.brokers.rabbitmq.publisher import Published, RabbitMQPublisher
from inboxd.settings import Broker
from tests.brokers.rabbitmq.published import (
    Told,
    a_message,
    bodies_of,
    broker_at,
    consumer_at,
    count_of,
    messages_of,
    publisher_at,
    some_messages,
)
from tests.support.rabbitmq import RabbitMQServer
from tests.support.verdicts import safety
from tests.support.waiting import WITHIN

pytestmark = pytest.mark.anyio

_EVENT = CloudEvent(
    id="5",
    source="/bets",
    type="matches.result",
    subject="zwölf %",
    extensions={"partitionkey": "match-17"},
)


async def test_a_message_has_its_properties_and_is_persistent(
    broker: Broker, queue: AbstractQueue
) -> None:
    message = a_message(
        queue.name,
        b'{"a": 1}',
        attributes=cloud_events.attributes(_EVENT),
        headers={"traceparent": "00-1-2-03", "cloudEvents:type": "not mine"},
    )
    began = int(time.time())
    async with publisher_at(broker) as publisher:
        await publisher.publish([message], Told())
    (came,) = await messages_of(queue)
    assert came.body == b'{"a": 1}'
    assert came.delivery_mode is DeliveryMode.PERSISTENT
    assert came.message_id == message.id
    assert came.content_type == "application/json"
    assert came.type == "matches.result"
    assert came.timestamp is not None
    assert began <= came.timestamp.timestamp() <= time.time()
    assert came.headers == {
        "traceparent": "00-1-2-03",
        "cloudEvents:specversion": "1.0",
        "cloudEvents:id": "5",
        "cloudEvents:source": "/bets",
        "cloudEvents:type": "matches.result",
        "cloudEvents:subject": "zwölf %",
        "cloudEvents:partitionkey": "match-17",
    }


async def test_a_page_is_in_the_queue_in_its_order_when_all_of_it_is_confirmed(
    broker: Broker, queue: AbstractQueue
) -> None:
    told = Told()
    page = some_messages(queue.name, 1000, size=200)
    async with publisher_at(broker) as publisher:
        await publisher.publish(page[:600], told)
        await publisher.publish([], told)
        await publisher.publish(page[600:], lambda place, error: told(600 + place, error))
    with safety():
        assert told.confirmed == [*range(1000)]
        assert await bodies_of(queue) == [message.body for message in page]


async def test_a_cloud_event_is_the_same_when_it_is_consumed(
    broker: Broker, queue: AbstractQueue
) -> None:
    """Bodies of several AMQP frames and empty bodies are unchanged, too."""
    bodies = [b"x" * 500_000, b"", b"[]"]
    attributes = cloud_events.attributes(_EVENT)
    page = [a_message(queue.name, body, attributes=attributes) for body in bodies]
    told = Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told)
    with safety():
        assert told.confirmed == [0, 1, 2]
    came: list[IncomingMessage] = []
    async with consumer_at(broker, queue.name) as consumer:
        while len(came) < len(page):
            came += await consumer.receive(10, 30)
    with safety():
        assert [message.body for message in came] == bodies
    read = [cloud_events.read(message.headers, ["cloudEvents:"]) for message in came]
    assert read == [dataclasses.replace(_EVENT, datacontenttype="application/json")] * 3


async def test_a_message_that_no_queue_takes_is_refused_alone(
    broker: Broker, queue: AbstractQueue
) -> None:
    """Ids are not unique: of two messages with one id, the returned one is refused."""
    page = some_messages(queue.name, 200)
    page[50] = a_message("nowhere")
    page[120] = a_message("nowhere", id=page[119].id)
    told = Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told)
    with safety():
        assert sorted(told.refused) == [50, 120]
        assert len(told.confirmed) == 198
        assert await bodies_of(queue) == [page[place].body for place in told.confirmed]
    refusal = told.refused[50]
    assert refusal.unroutable
    assert not refusal.for_good
    assert str(refusal) == (
        "there is no queue 'nowhere' (NO_ROUTE): declare it, or correct `to` or `exchange` of the "
        "relay."
    )


async def test_a_full_queue_refuses_and_others_do_not(
    broker: Broker, channel: AbstractChannel, queue: AbstractQueue
) -> None:
    limits: FieldTable = {"x-max-length": 3, "x-overflow": "reject-publish"}
    full = await channel.declare_queue(uuid.uuid4().hex, durable=True, arguments=limits)
    page = [a_message(each) for _ in range(50) for each in (full.name, queue.name)]
    told = Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told)
        with safety():
            assert set(told.confirmed) > {*range(1, 100, 2)}
            assert await count_of(full) == len(told.confirmed) - 50
        refusal = told.refused[98]
        assert "full" in str(refusal)
        assert not refusal.for_good
        await full.purge()
        again = Told()
        await publisher.publish([page[98]], again)
        with safety():
            assert again.confirmed == [0]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"to": "ä" * 128}, "routing key"),
        ({"exchange": "x" * 256}, "exchange"),
        ({"content_type": "x" * 256}, "content type"),
        ({"id": "\ud800"}, "its id"),
        ({"headers": {"x" * 256: "1"}}, "header"),
        ({"headers": {"a": "b\x00"}}, "control character"),
        ({"headers": {"CC": "elsewhere"}}, "RabbitMQ routes by the header"),
        ({"headers": {"a": "x" * 131_072}}, "frame_max"),
    ],
)
async def test_a_message_that_does_not_fit_amqp_is_refused_for_good_alone(
    broker: Broker, queue: AbstractQueue, wrong: dict[str, object], why: str
) -> None:
    page = some_messages(queue.name, 3)
    page[1] = a_message(**{"to": queue.name, **wrong})  # type: ignore[arg-type]
    told = Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told)
    with safety():
        assert told.confirmed == [0, 2]
    assert told.refused[1].for_good
    assert why in str(told.refused[1])
    with safety():
        assert await bodies_of(queue) == [b"0", b"2"]


async def test_a_missing_exchange_takes_no_other_message_with_it(
    broker: Broker, queue: AbstractQueue
) -> None:
    page = some_messages(queue.name, 100)
    for place in (10, 60):
        page[place] = a_message(queue.name, exchange="gone")
    told = Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told)
        with safety():
            assert sorted(told.refused) == [10, 60]
            assert len(told.confirmed) == 98
            assert {*await bodies_of(queue)} == {page[place].body for place in told.confirmed}
        refusal = told.refused[60]
        assert not refusal.for_good
        assert refusal.unroutable
        assert "no exchange 'gone' in vhost '/'" in str(refusal)
        await publisher.publish(page[:1], again := Told())
        with safety():
            assert again.confirmed == [0]


async def test_a_body_that_is_too_large_is_refused_for_good_alone(
    broker: Broker, queue: AbstractQueue
) -> None:
    """Later messages of its size are published alone: no other message is published twice."""
    large = a_message(queue.name, b"x" * 2_097_153)
    page = [*some_messages(queue.name, 2), large, *some_messages(queue.name, 2)]
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told := Told())
        with safety():
            assert told.confirmed == [0, 1, 3, 4]
        assert told.refused[2].for_good
        assert "its body has 2097153 bytes" in str(told.refused[2])
        await queue.purge()
        await publisher.publish(page, again := Told())
        with safety():
            assert again.confirmed == [0, 1, 3, 4]
            assert await bodies_of(queue) == [b"0", b"1", b"0", b"1"]


@pytest.mark.parametrize("places", [[0], [7], [99], [0, 1], [10, 60, 61, 99], [*range(100)]])
async def test_the_message_that_closes_the_channel_is_found_without_its_words(
    broker: Broker, queue: AbstractQueue, monkeypatch: pytest.MonkeyPatch, places: list[int]
) -> None:
    """Another version, or another server of the protocol, words its errors otherwise."""

    def say(self: AmqpClosed, code: int, _text: str) -> None:
        self.code, self.text = code, "so nicht"

    monkeypatch.setattr(AmqpClosed, "__init__", say)
    page = some_messages(queue.name, 100)
    for place in places:
        page[place] = a_message(queue.name, exchange="gone")
    page.append(a_message(queue.name, b"x" * 2_097_153))
    async with publisher_at(broker) as publisher:
        with anyio.fail_after(WITHIN):
            await publisher.publish(page, told := Told())
    with safety():
        assert sorted(told.refused) == [*places, 100]
        assert {*await bodies_of(queue)} == {
            each.body for place, each in enumerate(page[:100]) if place not in places
        }
    assert all(told.refused[place].unroutable for place in places)
    assert told.refused[100].for_good


async def test_messages_behind_the_refused_one_are_published_in_growing_parts(
    broker: Broker, queue: AbstractQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, publish = [], RabbitMQPublisher._publish

    async def noted(self: RabbitMQPublisher, page: Published, most: int) -> None:
        parts.append(most)
        await publish(self, page, most)

    monkeypatch.setattr(RabbitMQPublisher, "_publish", noted)
    page = [a_message(queue.name, exchange="gone"), *some_messages(queue.name, 15)]
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, Told())
    assert parts == [16, 8, 4, 2, 1, 1, 2, 4, 8]


async def test_an_exchange_that_the_user_may_not_write_to_is_named(
    server: RabbitMQServer, channel: AbstractChannel, queue: AbstractQueue
) -> None:
    """The same for a topic exchange, where the right depends on the routing key."""
    named = uuid.uuid4().hex
    exchange = await channel.declare_exchange(named, "topic", durable=True)
    await queue.bind(exchange, "#")
    rights = f'<<".*">>, <<"{named}|amq.default">>, <<".*">>'
    topics = f'<<"{named}">>, <<"^open">>, <<".*">>'
    where = f'<<"{named}">>, <<"/">>'
    server.evaluate(f"""
        rabbit_auth_backend_internal:add_user(<<"{named}">>, <<"pw">>, <<"tests">>),
        rabbit_auth_backend_internal:set_permissions({where}, {rights}, <<"tests">>),
        rabbit_auth_backend_internal:set_topic_permissions({where}, {topics}, <<"tests">>)
    """)
    places = ("open.a", "shut.a", "open.b")
    page: list[OutgoingMessage] = [a_message(to, exchange=named) for to in places]
    page.append(a_message(queue.name, exchange="amq.fanout"))
    async with publisher_at(broker_at(server.address, user=named, password="pw")) as publisher:
        await publisher.publish(page, told := Told())
    with safety():
        assert told.confirmed == [0, 2]
    assert "access to topic 'shut.a'" in str(told.refused[1])
    assert "access to exchange 'amq.fanout'" in str(told.refused[3])
