"""Sources of whole workers from RabbitMQ: in queues, message ids show what came before."""

from collections.abc import AsyncIterator

import anyio
import pytest

from inboxd import operations
from inboxd.brokers.rabbitmq.stream import FollowedRabbitMQStream
from inboxd.settings import Broker, MessageSource
from tests.messages.consuming import (
    being_stored,
    forget,
    is_told,
    mortal,
    numbers,
    settled,
    slow_commit,
    stored,
)
from tests.messages.rabbitmq_reading import Queue, following, made_queue, reading
from tests.support import Database, StartWorker, eventually
from tests.support.rabbitmq import RabbitMQServer
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


@pytest.fixture
async def queue(rabbitmq: RabbitMQServer) -> AsyncIterator[Queue]:
    """An empty queue of the test's own."""
    async with made_queue(rabbitmq) as made:
        yield made


async def test_a_worker_killed_between_commit_and_acknowledgement_stores_once(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    config = mortal(reading(rabbitmq, queue))
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


async def test_a_commit_longer_than_consumer_timeout_stores_once(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    """RabbitMQ closes the channel, and all messages come again: stored once (R0.4)."""
    rabbitmq.evaluate("application:set_env(rabbit, consumer_timeout, 300)")
    try:
        worker = await start_worker(reading(rabbitmq, queue))
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
    await queue.is_empty()  # messages that came again are stored, or were before
    with safety():
        assert await stored(database, 5) == [1, 2, 3, 4, 5]


async def test_every_message_delivered_twice_is_one_event(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    worker = await start_worker(reading(rabbitmq, queue))
    await queue.publish(1, 50)
    await stored(database, 50)
    await settled(database)  # so that only the dedup keys know them
    await queue.publish(1, 51)
    with safety():
        assert await stored(database, 51) == [*range(1, 52)]
    duplicates = 'inboxd_messages_events_total{broker="main",outcome="duplicate",source="results"}'

    async def are_counted() -> bool:
        return await worker.metric(duplicates) == 50

    await eventually(are_counted)


async def test_poison_in_the_middle_of_a_page_stops_no_other_message(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    async with slow_commit(database):
        await queue.publish(1, 3)
        await queue.put(b"<poison/>", "p")
        await queue.publish(5, 6)
    await start_worker(reading(rabbitmq, queue))
    with safety():
        assert await stored(database, 5) == [1, 2, 3, 5, 6]
    (dead,) = await database.fetch("select * from inboxd.events where status = 'failed'")
    with safety():
        assert (dead["payload"], dead["dedup_key"]) == ('"<poison/>"', "p")
    await queue.is_empty()


async def test_another_worker_continues_when_one_stops(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    config = reading(rabbitmq, queue)
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


@pytest.fixture
async def stream(rabbitmq: RabbitMQServer) -> AsyncIterator[Queue]:
    """An empty stream of the test's own."""
    async with made_queue(rabbitmq, stream=True) as made:
        yield made


async def test_a_stream_is_stored_once_though_its_database_is_set_back(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, stream: Queue
) -> None:
    """Its position is stored with the events: RabbitMQ's acknowledgements do not count."""
    config = mortal(following(rabbitmq, stream))
    worker = await start_worker(config)
    await stream.publish(0, 0)
    await stored(database, 1)
    async with slow_commit(database):
        await stream.publish(1, 20)
        await being_stored(database)
        worker.kill()
    await stored(database, 2)
    worker = await start_worker(config)
    await stream.publish(21, 30)
    with safety():
        assert await stored(database, 31) == [*range(31)]
    assert await database.fetchval("select position from inboxd.stream_positions") == 30
    await settled(database)
    await worker.stop()
    fingerprint = await _identity_at(rabbitmq, stream, 5)
    await forget(database, above=5)
    await database.execute(
        "update inboxd.stream_positions set position = 5, identity = $1", fingerprint
    )
    await start_worker(config)
    await stream.publish(31, 32)
    with safety():
        assert await stored(database, 33) == [*range(33)]


async def _identity_at(rabbitmq: RabbitMQServer, stream: Queue, position: int) -> str:
    """The identity that is stored beside a position: that of the message there."""
    given = following(rabbitmq, stream)
    settings = MessageSource.model_validate(given["inbound"]["messages"]["results"])
    broker = Broker.model_validate(given["brokers"]["main"])
    followed = FollowedRabbitMQStream("main", broker, "results", settings)
    (message,) = await followed.between(position, position)
    return message.identity


async def test_a_stream_that_was_made_anew_stops_its_source_until_it_is_reset(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer, stream: Queue
) -> None:
    config = following(rabbitmq, stream)
    worker = await start_worker(config)
    await stream.publish(0, 4)
    await stored(database, 5)
    await worker.stop()
    await stream.channel.queue_delete(stream.name)
    await stream.channel.declare_queue(
        stream.name, durable=True, arguments={"x-queue-type": "stream"}
    )
    await stream.publish(5, 12)
    await start_worker(config)
    await is_told(database, "lost")
    with safety():
        assert await numbers(database) == [0, 1, 2, 3, 4]
    async with daemon_session(database) as session:
        given = ("results", stream.name, "oldest")
        await operations.reset_stream(session, *given, actor="me")
    with safety():
        assert await stored(database, 13) == [*range(13)]
