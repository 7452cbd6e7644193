"""Relays of whole workers to real brokers that stop and start under load."""

import json
from collections.abc import Sequence
from uuid import uuid4

import anyio
import pytest

from tests.relays.relaying import attempts, emit, settled
from tests.support import Config, Database, StartWorker
from tests.support.kafka import mock_kafka
from tests.support.nats import NatsServer, jetstream, nats_server
from tests.support.rabbitmq import PASSWORD, USER, RabbitMQServer, plain_channel
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

KEYS: list[str | None] = [f"k{n % 20}" for n in range(600)]
QUICK: Config = {"breakers": {"broker.main": {"first_break": "100ms", "longest_break": "500ms"}}}


def relaying(broker: dict[str, object], to: str) -> Config:
    """The settings of a worker that publishes to this broker."""
    types = ["match.result", "match.goal"]
    return {
        "brokers": {"main": broker},
        "relays": {"results": {"broker": "main", "types": types, "to": to, "page_rows": 100}},
        **QUICK,
    }


def in_order(found: Sequence[tuple[str | None, int]]) -> None:
    """All messages of each key came, and first in order."""
    by_key: dict[str | None, list[int]] = {}
    for key, number in found:
        numbers = by_key.setdefault(key, [])
        if number not in numbers:
            numbers.append(number)
    with safety():
        assert sum(map(len, by_key.values())) == 2 * len(KEYS)
        for numbers in by_key.values():
            assert numbers == sorted(numbers)


@pytest.mark.usefixtures("one_nats")
async def test_a_restart_of_nats_under_load_loses_nothing(
    database: Database, start_worker: StartWorker
) -> None:
    with nats_server() as server:
        async with jetstream(server) as js:
            await js.add_stream(name="RESULTS", subjects=["match.>"], duplicate_window=120)
        await _publish_over_an_outage(
            database,
            start_worker,
            relaying({"kind": "nats", "servers": [server.address]}, "{type}.v{version}"),
            server,
        )
        found = []
        async with jetstream(server) as js:
            consumer = await js.subscribe("match.>", ordered_consumer=True)
            for _ in range((await js.stream_info("RESULTS")).state.messages):
                message = await consumer.next_msg(5)
                assert message.subject == "match.result.v1"
                headers = message.headers or {}
                assert headers["ce-type"] == "match.result"
                found.append((headers["ce-partitionkey"], int(message.data)))
    with safety():
        # The stream recognises a repetition by its id.
        assert len(found) == 2 * len(KEYS)
        in_order(found)


@pytest.mark.long
async def test_a_restart_of_rabbitmq_under_load_loses_nothing(
    database: Database, start_worker: StartWorker, rabbitmq: RabbitMQServer
) -> None:
    name = uuid4().hex
    async with plain_channel(rabbitmq) as channel:
        await channel.declare_queue(name, durable=True)
    rabbitmq.keep_declared()
    broker: dict[str, object] = {
        "kind": "rabbitmq",
        "servers": [rabbitmq.address],
        "user": USER,
        "password": PASSWORD,
    }
    await _publish_over_an_outage(database, start_worker, relaying(broker, name), rabbitmq)
    found = []
    async with plain_channel(rabbitmq) as channel:
        queue = await channel.get_queue(name)
        while (message := await queue.get(no_ack=True, fail=False)) is not None:
            assert message.headers["cloudEvents:type"] == "match.result"
            key = str(message.headers["cloudEvents:partitionkey"])
            found.append((key, int(message.body)))
    with safety():
        in_order(found)


async def _publish_over_an_outage(
    database: Database,
    start_worker: StartWorker,
    config: Config,
    server: NatsServer | RabbitMQServer,
) -> None:
    worker = await start_worker(config)
    await emit(database, KEYS)
    await settled(database, 50)
    await anyio.to_thread.run_sync(server.stop)
    await emit(database, KEYS, start=1 + len(KEYS))
    await worker.logged("breaker opens")
    await anyio.to_thread.run_sync(server.start)
    await settled(database, 2 * len(KEYS))
    with safety():
        assert await attempts(database) == {1}


@pytest.mark.usefixtures("one_kafka")
async def test_restarts_of_kafka_brokers_under_load_lose_nothing(
    database: Database, start_worker: StartWorker
) -> None:
    with mock_kafka() as kafka:
        topic = kafka.topic(partitions=4)
        config = relaying(
            {"kind": "kafka", "servers": list(kafka.servers), "connect_timeout": "2s"}, topic
        )
        worker = await start_worker(config)
        await emit(database, KEYS)
        await settled(database, 50)
        kafka.down()
        await emit(database, KEYS, start=1 + len(KEYS))
        await worker.logged("publishing to a broker failed")
        kafka.up()
        await settled(database, 2 * len(KEYS))
        with safety():
            assert await attempts(database) == {1}
        records = await kafka.records(topic)
    found = [
        (None if each.key is None else each.key.decode(), json.loads(each.value or b""))
        for each in records
    ]
    assert {each.headers["ce_type"] for each in records} == {b"match.result"}
    with safety():
        in_order(found)
