"""Brokers compared with stored positions and rows: gaps are named, and only gaps."""

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aio_pika
import pytest
from nats.js import JetStreamContext

from inboxd.inbound.messages.verifying import VerifiedStream, verify
from inboxd.operations.doctor.finding import Verdict
from inboxd.settings import Settings
from tests.messages.consuming import body, consuming, forget, settled, stored
from tests.support import Config, Database, StartWorker
from tests.support.kafka import MockKafka, mock_kafka
from tests.support.kafka_published import outgoing, published, publisher_to
from tests.support.nats import NatsServer, jetstream, nats_server
from tests.support.rabbitmq import PASSWORD, USER, RabbitMQServer, plain_channel
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio


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
    return consuming({"kind": "nats", "servers": [nats.address]}, {"nats_stream": "RESULTS"})


async def _verified(database: Database, config: Config, most: int = 100) -> list[VerifiedStream]:
    given = {"brokers": config["brokers"], "inbound": config["inbound"]}
    settings = Settings.model_validate({"database": {"dsn": database.dsn}, **given})
    async with daemon_session(database) as session:
        return await verify(session, settings, most)


async def _publish(js: JetStreamContext, start: int, end: int) -> None:
    for number in range(start, end + 1):
        await js.publish("results.a", body(number))


async def _read_and_stopped(
    database: Database, start_worker: StartWorker, config: Config, count: int
) -> None:
    worker = await start_worker(config)
    await stored(database, count)
    await settled(database)
    await worker.stop()


async def test_a_stream_without_gaps_is_reported_with_its_waiting_messages(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    await _publish(js, 1, 10)
    await _read_and_stopped(database, start_worker, config, 10)
    await _publish(js, 11, 14)
    (found,) = await _verified(database, config)
    assert (found.source, found.stream, found.verdict) == ("results", "RESULTS", Verdict.OK)
    assert (found.oldest, found.end, found.position, found.waiting) == (1, 14, 10, 4)
    assert (found.looked, found.missing) == (10, [])
    (found,) = await _verified(database, config, most=3)
    assert found.looked == 3


async def test_messages_without_rows_are_named(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    await _publish(js, 1, 10)
    await _read_and_stopped(database, start_worker, config, 10)
    await database.execute(
        "delete from inboxd.events_history where payload ->> 'n' in ('4', '5', '6', '9')"
    )
    (found,) = await _verified(database, config)
    assert found.missing == [4, 5, 6, 9]
    assert found.verdict is Verdict.WARNING
    assert "no rows: 4 to 6, 9" in found.found
    assert "inboxd messages reset results RESULTS --to 3" in found.remedy


async def test_a_message_that_a_dedup_key_may_know_is_no_gap(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    await _publish(js, 1, 3)
    await _read_and_stopped(database, start_worker, config, 3)
    await forget(database)
    config["inbound"]["messages"]["results"]["dedup_key"] = "body"
    (found,) = await _verified(database, config)
    assert (found.verdict, found.missing, found.looked) == (Verdict.OK, [], 3)


async def test_removed_messages_behind_the_position_are_a_gap(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    await _publish(js, 1, 5)
    await _read_and_stopped(database, start_worker, config, 5)
    await _publish(js, 6, 9)
    await js.purge_stream("RESULTS", seq=8)
    (found,) = await _verified(database, config)
    assert found.verdict is Verdict.CRITICAL
    assert "it begins at 8 now: what followed position 5 was removed" in found.found
    assert found.remedy.startswith("inboxd messages reset results RESULTS")
    assert (found.oldest, found.position) == (8, 5)


async def test_a_broker_that_is_away_is_reported_and_is_no_gap(
    database: Database, config: Config
) -> None:
    config["brokers"]["main"]["servers"] = ["127.0.0.1:1"]
    (found,) = await _verified(database, config)
    assert (found.seen, found.verdict) == (False, Verdict.WARNING)
    assert "cannot be reached" in found.found


def _kafka(kafka: MockKafka, topic: str) -> Config:
    broker = {"kind": "kafka", "servers": [*kafka.servers], "connect_timeout": "5s"}
    return consuming(broker, {"kafka_topics": [topic], "kafka_group": topic})


async def _positions(database: Database, topic: str, stored: dict[int, int]) -> None:
    """Positions as a worker has left them, with the identity of a broker without ids."""
    for partition, position in stored.items():
        await database.execute(
            "insert into inboxd.stream_positions (source, stream, position, identity)"
            " values ('results', $1, $2, 'unknown')",
            f"{topic}/{partition}",
            position,
        )


async def _put(kafka: MockKafka, topic: str) -> None:
    """Put messages into each partition: as many as their keys bring there."""
    async with publisher_to(kafka) as publisher:
        messages = [outgoing(topic, body(n), key=f"k{n}") for n in range(40)]
        assert not await published(publisher, messages)


async def test_partitions_of_kafka_are_compared(database: Database, kafka: MockKafka) -> None:
    topic = kafka.topic(partitions=2)
    await _put(kafka, topic)
    records = await kafka.records(topic)
    counts = [sum(each.partition == number for each in records) for number in (0, 1)]
    await _positions(database, topic, {0: 2})
    first, second = await _verified(database, _kafka(kafka, topic))
    assert (first.stream, first.position, first.end) == (f"{topic}/0", 2, counts[0] - 1)
    assert (first.waiting, second.waiting) == (counts[0] - 3, counts[1])
    assert (first.looked, first.missing) == (3, [0, 1, 2]), "they were never stored"
    assert f"`inboxd messages reset results {topic}/0 --to oldest`" in first.remedy
    assert first.verdict is Verdict.WARNING
    assert (second.position, second.verdict) == (None, Verdict.OK)
    kafka.forget(topic, 0, 5)
    first, _ = await _verified(database, _kafka(kafka, topic))
    assert first.verdict is Verdict.CRITICAL
    assert "what followed was deleted (retention)" in first.found


async def test_streams_are_found_behind_those_of_many_sources(
    database: Database, kafka: MockKafka
) -> None:
    topic = kafka.topic(partitions=1)
    await _put(kafka, topic)
    await database.execute(
        "insert into inboxd.stream_positions (source, stream, position, identity)"
        " select 'before', n::text, 1, '' from generate_series(1, 1001) as n"
    )
    await _positions(database, topic, {0: 2})
    first, *_ = await _verified(database, _kafka(kafka, topic))
    assert (first.stream, first.position) == (f"{topic}/0", 2)


def _rabbitmq(server: RabbitMQServer, **source: str) -> Config:
    broker: dict[str, Any] = {"kind": "rabbitmq", "servers": [server.address]}
    login = {"user": USER, "password": PASSWORD}
    return consuming({**broker, **login}, source)


async def test_a_queue_has_no_position(database: Database, rabbitmq: RabbitMQServer) -> None:
    async with plain_channel(rabbitmq) as channel:
        queue = await channel.declare_queue(uuid.uuid4().hex, durable=True)
        (found,) = await _verified(database, _rabbitmq(rabbitmq, rabbitmq_queue=queue.name))
    assert (found.verdict, found.waiting, found.end) == (Verdict.OK, 0, None)
    assert "no positions" in found.found


async def test_a_stream_of_rabbitmq_is_compared(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer
) -> None:
    name = uuid.uuid4().hex
    config = _rabbitmq(rabbitmq, rabbitmq_stream=name)
    async with plain_channel(rabbitmq) as channel:
        await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "stream"})

        async def publish(start: int, end: int) -> None:
            for number in range(start, end + 1):
                message = aio_pika.Message(body(number))
                await channel.default_exchange.publish(message, name)

        await publish(0, 9)
        await _read_and_stopped(database, start_worker, config, 10)
        await publish(10, 13)
        (found,) = await _verified(database, config)
        assert (found.oldest, found.end, found.position, found.waiting) == (0, 13, 9, 4)
        assert (found.verdict, found.looked, found.missing) == (Verdict.OK, 10, [])
        await channel.queue_delete(name)
        (found,) = await _verified(database, config)
        assert (found.verdict, "the stream does not exist" in found.found) == (
            Verdict.CRITICAL,
            True,
        )
