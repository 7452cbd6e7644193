"""Sources of whole workers from RabbitMQ: no positions, so message ids tell what came before."""

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import aio_pika
import anyio
import pytest
from aio_pika.abc import AbstractChannel

from tests.messages.consuming import (
    being_stored,
    body,
    consuming,
    is_told,
    mortal,
    settled,
    slow_commit,
    stored,
)
from tests.support import Config, Database, StartWorker, eventually
from tests.support.rabbitmq import PASSWORD, USER, RabbitMQServer, plain_channel, rabbitmq_server
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[RabbitMQServer]:
    """A server that the tests of this module share."""
    with rabbitmq_server() as running:
        yield running


@dataclass(frozen=True)
class Queue:
    """A queue of the test's own, through a plain client."""

    channel: AbstractChannel
    name: str

    async def publish(self, start: int, end: int) -> None:
        """Publish numbers, each with an id of its own."""
        for number in range(start, end + 1):
            await self.put(body(number), f"m-{number}")

    async def put(self, body: bytes, id: str) -> None:
        """Publish one message."""
        message = aio_pika.Message(body, message_id=id)
        await self.channel.default_exchange.publish(message, self.name)

    async def is_empty(self) -> None:
        """Wait until nothing is ready."""

        async def empty() -> bool:
            declared = await self.channel.declare_queue(self.name, durable=True, passive=True)
            return declared.declaration_result.message_count == 0

        await eventually(empty)

    async def is_left(self) -> None:
        """Wait until nobody consumes it."""

        async def left() -> bool:
            declared = await self.channel.declare_queue(self.name, durable=True, passive=True)
            return declared.declaration_result.consumer_count == 0

        await eventually(left)


@pytest.fixture
async def queue(rabbitmq: RabbitMQServer) -> AsyncIterator[Queue]:
    """One that is empty."""
    async with plain_channel(rabbitmq) as channel:
        name = uuid.uuid4().hex
        await channel.declare_queue(name, durable=True)
        yield Queue(channel, name)


def _reading(rabbitmq: RabbitMQServer, queue: Queue, **source: Any) -> Config:
    broker = {"kind": "rabbitmq", "servers": [rabbitmq.address]}
    login = {"user": USER, "password": PASSWORD}
    return consuming({**broker, **login}, {"rabbitmq_queue": queue.name, **source})


async def test_a_worker_is_killed_between_commit_and_acknowledgement(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    config = mortal(_reading(rabbitmq, queue))
    worker = await start_worker(config)
    await queue.publish(1, 1)
    await stored(database, 1)
    async with slow_commit(database):
        await queue.publish(2, 10)
        await being_stored(database)
        worker.kill()
    await stored(database, 2)
    worker = await start_worker(config)
    await queue.publish(11, 12)
    with safety():
        assert await stored(database, 12) == [*range(1, 13)]
    redelivered = 'inboxd_messages_redelivered_total{broker="main",source="results"}'
    assert await worker.metric(redelivered) >= 1


async def test_a_commit_that_takes_longer_than_consumer_timeout(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    """RabbitMQ closes the channel, and all comes again: stored once (R0.4)."""
    rabbitmq.evaluate("application:set_env(rabbit, consumer_timeout, 300)")
    try:
        worker = await start_worker(_reading(rabbitmq, queue))
        await queue.publish(1, 1)
        await stored(database, 1)
        async with slow_commit(database):
            await queue.publish(2, 5)
            await being_stored(database)
            await queue.is_left()
        with safety():
            assert await stored(database, 5) == [1, 2, 3, 4, 5]
    finally:
        rabbitmq.evaluate("application:set_env(rabbit, consumer_timeout, 1800000)")
    await worker.logged("raise RabbitMQ's consumer_timeout")
    failures = 'inboxd_messages_acknowledge_failures_total{broker="main",source="results"}'
    assert await worker.metric(failures) == 1
    await queue.is_empty()  # so what came again is stored, or was
    with safety():
        assert await stored(database, 5) == [1, 2, 3, 4, 5]


async def test_every_message_delivered_twice_is_one_event(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    worker = await start_worker(_reading(rabbitmq, queue))
    await queue.publish(1, 50)
    await stored(database, 50)
    await settled(database)  # so that nothing but the dedup keys knows of them
    await queue.publish(1, 51)
    with safety():
        assert await stored(database, 51) == [*range(1, 52)]
    duplicates = 'inboxd_messages_events_total{broker="main",outcome="duplicate",source="results"}'

    async def are_counted() -> bool:
        return await worker.metric(duplicates) == 50

    await eventually(are_counted)


async def test_poison_in_the_middle_of_a_page(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    async with slow_commit(database):
        await queue.publish(1, 3)
        await queue.put(b"<poison/>", "p")
        await queue.publish(5, 6)
    await start_worker(_reading(rabbitmq, queue))
    with safety():
        assert await stored(database, 5) == [1, 2, 3, 5, 6]
    (dead,) = await database.fetch("select * from inboxd.events where status = 'failed'")
    with safety():
        assert (dead["payload"], dead["dedup_key"]) == ('"<poison/>"', "p")
    await queue.is_empty()


async def test_another_worker_goes_on_when_one_stops(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    config = _reading(rabbitmq, queue)
    first = await start_worker(config)
    await is_told(database, "reading")
    await start_worker(config)
    await is_told(database, "reading", "standby")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue.publish, 1, 500)
        await stored(database, 50)
        assert await first.stop() == 0
    with safety():
        assert await stored(database, 500) == [*range(1, 501)]
