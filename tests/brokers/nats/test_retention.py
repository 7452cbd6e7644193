"""Streams that drop acknowledged messages: work queues, and those that keep them by interest."""

import copy
from typing import Any

import pytest
from nats.js import JetStreamContext

from inboxd.brokers.nats import opening
from inboxd.brokers.nats.jetstream import NatsDurable, make_durable
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker, MessageSource
from tests.brokers.nats.conftest import Stream, make_stream
from tests.brokers.nats.following import (
    DURABLE,
    StoredMessages,
    consumer_at,
    follows,
    lost_by,
    store,
    stored_of,
    take,
)
from tests.support import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

_KINDS = pytest.mark.parametrize(
    ("retention", "subjects"),
    [("workqueue", ()), ("workqueue", ("a",)), ("interest", ()), ("interest", ("a",))],
)


async def begun(
    broker: Broker, js: JetStreamContext, retention: str, subjects: tuple[str, ...]
) -> tuple[Stream, MessageSource, StoredMessages]:
    """A stream that a source follows; another service consumes its other subjects."""
    stream = await make_stream(js, retention=retention)
    settings, stored = follows(stream, *subjects), StoredMessages()
    if subjects or retention == "interest":
        await js.pull_subscribe(f"{stream.prefix}.b", durable="other", stream=stream.name)
    async with consumer_at(broker, settings, stored):
        pass
    return stream, settings, stored


@_KINDS
async def test_acknowledged_messages_are_dropped_and_the_others_are_read(
    broker: Broker, js: JetStreamContext, retention: str, subjects: tuple[str, ...]
) -> None:
    stream, settings, stored = await begun(broker, js, retention, subjects)
    await stream.fill(10)
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 4)
        await take(consumer, 2)
    await eventually(lambda: _has(stream, 6))
    await stream.js.publish(f"{stream.prefix}.a", b"11")  # while no consumer is connected
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 7)
    await eventually(lambda: _has(stream, 0))
    assert stored.numbers == list(range(1, 12))
    assert stored.passed_over == 0


@_KINDS
async def test_acknowledged_messages_unknown_to_an_older_database_are_lost(
    broker: Broker, js: JetStreamContext, retention: str, subjects: tuple[str, ...]
) -> None:
    stream, settings, stored = await begun(broker, js, retention, subjects)
    await stream.js.publish(f"{stream.prefix}.b", b"1")  # it stays, so the stream begins with it
    await stream.fill(10)
    older = []
    async with consumer_at(broker, settings, stored) as consumer:
        for _ in range(2):
            await store(consumer, stored, 2 if not subjects and retention == "workqueue" else 1)
            older.append(copy.copy(stored))
    async with consumer_at(broker, settings, stored) as consumer:
        older.append(copy.copy(stored))
        await store(consumer, stored, 1)
        older.append(copy.copy(stored))
        await store(consumer, stored, 2)
    for each in older:
        await lost_by(broker, settings, each)
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 1)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_messages_that_others_acknowledged_are_not_missed(
    broker: Broker, js: JetStreamContext, retention: str
) -> None:
    stream, settings, stored = await begun(broker, js, retention, ("a",))
    await stream.fill(2)
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 2)
        await stream.fill(3, "b")
        other = await js.pull_subscribe_bind("other", stream.name)
        for message in await other.fetch(3):
            await message.ack()
        await eventually(lambda: _has(stream, 0))
        await stream.fill(1)
        await store(consumer, stored, 1)
    await stream.fill(1, "b")
    (message,) = await other.fetch(1)
    await message.ack()
    await eventually(lambda: _has(stream, 0))  # it begins behind the stored position
    await stream.fill(1)
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 1)
    assert [message.position for message in stored.messages] == [1, 2, 6, 8]


@pytest.mark.parametrize("subjects", [(), ("a",)])
async def test_lost_acknowledgements_of_a_work_queue_are_repeated(
    broker: Broker, js: JetStreamContext, subjects: tuple[str, ...]
) -> None:
    stream, settings, stored = await begun(broker, js, "workqueue", subjects)
    await stream.fill(6)
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 2)
        stored.store(await take(consumer, 3))
    await eventually(lambda: _has(stream, 4))
    for _ in range(3):
        async with consumer_at(broker, settings, stored) as consumer:
            await take(consumer, 1)
            await eventually(lambda: _has(stream, 1))
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 1)
    assert stored.numbers == list(range(1, 7))
    assert stored.passed_over == 0
    for _ in range(2):
        async with consumer_at(broker, settings, stored) as consumer:
            assert await consumer.receive(10, 0.05) == []
    older = copy.copy(stored)
    await stream.fill(2)
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 2)
    await lost_by(broker, settings, older)


async def test_messages_without_a_consumer_to_keep_them_are_lost(
    broker: Broker, js: JetStreamContext
) -> None:
    stream, settings, stored = await begun(broker, js, "interest", ("a",))
    await stream.fill(2)
    stored = await stored_of(broker, settings, 2)
    await js.delete_consumer(stream.name, DURABLE)
    await stream.fill(3)
    told = await lost_by(broker, settings, stored)
    assert "its consumer is gone, and with it messages that were not stored yet" in told


async def test_a_stream_keeps_messages_while_its_consumer_is_made_anew(
    broker: Broker, js: JetStreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, settings, stored = await begun(broker, js, "interest", ("a",))

    async def make(*given: Any) -> NatsDurable:
        await stream.fill(2)  # the consumer before it is deleted already
        return await make_durable(*given)

    monkeypatch.setattr(opening, "make_durable", make)
    for _ in range(2):
        async with consumer_at(broker, settings, stored) as consumer:
            await store(consumer, stored, 2)
    assert stored.numbers == [1, 2, 1, 2]
    consumers = {info.name for info in await js.consumers_info(stream.name)}
    assert consumers == {DURABLE, "other"}


async def test_a_work_queue_cannot_begin_with_the_newest(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js, retention="workqueue")
    with pytest.raises(BrokerUnavailable, match="is a work queue, which must be read"):
        async with consumer_at(broker, follows(stream, begin="newest"), StoredMessages()):
            pass


async def _has(stream: Stream, count: int) -> bool:
    return await stream.count() == count
