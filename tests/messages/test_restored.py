"""Sources after the database has lost commits: a base backup, a standby that was promoted.

In both the position is as old as the rows, so later messages of the broker come again, each once.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import pytest
from anyio import to_thread
from nats.js import JetStreamContext

from inboxd.embedded import Server
from tests.brokers.kafka.conftest import quick_groups
from tests.messages.consuming import body, consuming, mortal, numbers, stored
from tests.messages.kafka_reading import publish, reading
from tests.messages.rabbitmq_reading import Queue, following, made_queue
from tests.support import (
    Config,
    Database,
    ServerCopy,
    StartWorker,
    eventually,
    server_copy,
)
from tests.support.kafka import MockKafka, mock_kafka
from tests.support.nats import NatsServer, jetstream, nats_server
from tests.support.ports import held_port
from tests.support.rabbitmq import RabbitMQServer
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

__all__ = ["quick_groups"]  # a fixture

BEFORE, LOST, ALL = 20, 40, 42


@pytest.fixture(scope="module")
def nats(one_nats: None) -> Iterator[NatsServer]:
    """A server that the tests of this module share."""
    with nats_server() as running:
        yield running


@pytest.fixture(scope="module")
def kafka(one_kafka: None) -> Iterator[MockKafka]:
    """A cluster that the tests of this module share."""
    with mock_kafka() as running:
        yield running


@pytest.fixture
async def js(nats: NatsServer) -> AsyncIterator[JetStreamContext]:
    """JetStream through a plain client, with a stream of the test's own."""
    async with jetstream(nats) as context:
        for info in await context.streams_info():
            await context.delete_stream(str(info.config.name))
        await context.add_stream(name="RESULTS", subjects=["results.>"])
        yield context


@pytest.fixture
def config(nats: NatsServer) -> Config:
    """The settings of a worker that reads the stream."""
    broker = {"kind": "nats", "servers": [nats.address]}
    return mortal(consuming(broker, {"nats_stream": "RESULTS"}))


@pytest.fixture
async def stream(rabbitmq: RabbitMQServer) -> AsyncIterator[Queue]:
    """An empty RabbitMQ stream of the test's own."""
    async with made_queue(rabbitmq, stream=True) as made:
        yield made


@pytest.fixture
def copy() -> Iterator[ServerCopy]:
    """A copy of the server, to run after the server is lost."""
    with server_copy() as made:
        yield made


async def _publish(js: JetStreamContext, start: int, end: int) -> None:
    for number in range(start, end + 1):
        await js.publish("results.a", body(number))


async def _restored(server: Server, database: Database, copy: ServerCopy) -> None:
    """The server is lost, and its backup runs in its place."""
    await database.end_sessions()
    await to_thread.run_sync(server.stop, "immediate")
    await to_thread.run_sync(copy.start, server.port)
    assert await numbers(database) == [*range(1, BEFORE + 1)], "the backup is older"


async def _followed(server: Server, database: Database, copy: ServerCopy) -> None:
    """A standby has all commits so far, and none from now on."""
    await to_thread.run_sync(partial(copy.take, server, follows=True))
    with held_port() as held:
        standby = await to_thread.run_sync(copy.start, held.getsockname()[1])
        follower = Database(database.name, standby.dsn(database.name))
        written = await database.fetchval("select pg_current_wal_lsn()::text")

        async def has_all() -> bool:
            replayed = "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
            return bool(await follower.fetchval(replayed, written))

        await eventually(has_all)
        await follower.end_sessions()
        await to_thread.run_sync(copy.stop)


async def _promoted(server: Server, database: Database, copy: ServerCopy) -> None:
    """The server is lost, and its standby is the primary in its place."""
    await database.end_sessions()
    await to_thread.run_sync(server.stop, "immediate")
    # It follows no other server: the commits that it lacks are lost.
    await to_thread.run_sync(partial(copy.start, server.port, primary_conninfo=""))
    assert await database.fetchval("select pg_promote()")
    assert await numbers(database) == [*range(1, BEFORE + 1)], "the standby lacks the last commits"


async def _position(database: Database) -> int:
    """The stored positions of all streams, added."""
    found: int = await database.fetchval(
        "select sum(position + 1)::int from inboxd.stream_positions"
    )
    return found


async def _read_over_a_loss(
    server: Server,
    database: Database,
    start_worker: StartWorker,
    config: Config,
    publish: Callable[[int, int], Awaitable[None]],
    copy: ServerCopy,
    *,
    promoted: bool,
) -> None:
    """A worker reads before and after the database has lost commits: each message is one event.

    promoted: a standby is promoted; otherwise a base backup is restored.
    """
    worker = await start_worker(config)
    await publish(1, BEFORE)
    await stored(database, BEFORE)
    if promoted:
        await _followed(server, database, copy)
    else:
        await to_thread.run_sync(copy.take, server)
    await publish(BEFORE + 1, LOST)
    await stored(database, LOST)
    worker.kill()
    await (_promoted if promoted else _restored)(server, database, copy)
    await start_worker(config)
    await publish(LOST + 1, ALL)
    with safety():
        assert await stored(database, ALL) == [*range(1, ALL + 1)]


async def test_a_base_backup_is_restored_after_more_came_from_nats(
    restartable_server: Server,
    restartable_database: Database,
    start_worker: StartWorker,
    js: JetStreamContext,
    config: Config,
    copy: ServerCopy,
) -> None:
    given = (restartable_server, restartable_database, start_worker)
    await _read_over_a_loss(*given, config, partial(_publish, js), copy, promoted=False)
    with safety():
        assert await _position(restartable_database) == ALL + 1


async def test_a_standby_that_lacked_the_last_commits_is_promoted_beside_nats(
    restartable_server: Server,
    restartable_database: Database,
    start_worker: StartWorker,
    js: JetStreamContext,
    config: Config,
    copy: ServerCopy,
) -> None:
    given = (restartable_server, restartable_database, start_worker)
    await _read_over_a_loss(*given, config, partial(_publish, js), copy, promoted=True)
    with safety():
        assert await _position(restartable_database) == ALL + 1


async def test_a_base_backup_is_restored_after_more_came_from_a_stream_of_rabbitmq(
    restartable_server: Server,
    restartable_database: Database,
    start_worker: StartWorker,
    rabbitmq: RabbitMQServer,
    stream: Queue,
    copy: ServerCopy,
) -> None:
    """The message at the stored position is read again, and shows that it is the same stream."""
    config = mortal(following(rabbitmq, stream))
    given = (restartable_server, restartable_database, start_worker)
    await _read_over_a_loss(*given, config, stream.publish, copy, promoted=False)
    with safety():
        assert await _position(restartable_database) == ALL


async def test_a_standby_that_lacked_the_last_commits_is_promoted_beside_rabbitmq(
    restartable_server: Server,
    restartable_database: Database,
    start_worker: StartWorker,
    rabbitmq: RabbitMQServer,
    stream: Queue,
    copy: ServerCopy,
) -> None:
    config = mortal(following(rabbitmq, stream))
    given = (restartable_server, restartable_database, start_worker)
    await _read_over_a_loss(*given, config, stream.publish, copy, promoted=True)
    with safety():
        assert await _position(restartable_database) == ALL


async def test_a_base_backup_is_restored_after_more_came_from_kafka(
    restartable_server: Server, restartable_database: Database, kafka: MockKafka, copy: ServerCopy
) -> None:
    """The group has committed offsets beyond the position that is stored then."""
    topic = kafka.topic(partitions=2)
    async with reading(restartable_database, kafka, topic):
        await publish(kafka, topic, 1, BEFORE)
        await stored(restartable_database, BEFORE)
        await to_thread.run_sync(copy.take, restartable_server)
        await publish(kafka, topic, BEFORE + 1, LOST)
        await stored(restartable_database, LOST)
    await _restored(restartable_server, restartable_database, copy)
    async with reading(restartable_database, kafka, topic):
        await publish(kafka, topic, LOST + 1, ALL)
        with safety():
            assert await stored(restartable_database, ALL) == [*range(1, ALL + 1)]
    with safety():
        assert await _position(restartable_database) == ALL


async def test_a_standby_that_lacked_the_last_commits_is_promoted_beside_kafka(
    restartable_server: Server, restartable_database: Database, kafka: MockKafka, copy: ServerCopy
) -> None:
    topic = kafka.topic(partitions=2)
    async with reading(restartable_database, kafka, topic):
        await publish(kafka, topic, 1, BEFORE)
        await stored(restartable_database, BEFORE)
        await _followed(restartable_server, restartable_database, copy)
        await publish(kafka, topic, BEFORE + 1, LOST)
        await stored(restartable_database, LOST)
    await _promoted(restartable_server, restartable_database, copy)
    async with reading(restartable_database, kafka, topic):
        await publish(kafka, topic, LOST + 1, ALL)
        with safety():
            assert await stored(restartable_database, ALL) == [*range(1, ALL + 1)]
    with safety():
        assert await _position(restartable_database) == ALL
