"""Sources of workers from Kafka: a group divides the partitions, the inbox keeps their positions.

The workers are in the test's own loop, since the mock of Kafka divides partitions only when a
session would end: here sessions are short.
"""

from collections import defaultdict
from collections.abc import Iterator

import anyio
import pytest

from inboxd.brokers.kafka import member
from tests.brokers.kafka.conftest import quick_groups
from tests.messages.consuming import settled, stored
from tests.messages.kafka_reading import KEYS, publish, reading
from tests.support import Database, eventually
from tests.support.kafka import MockKafka, mock_kafka
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

__all__ = ["quick_groups"]  # a fixture


@pytest.fixture(scope="module")
def kafka(one_kafka: None) -> Iterator[MockKafka]:
    """A cluster that the tests of this module share."""
    with mock_kafka() as running:
        yield running


async def _is_divided(database: Database, workers: int) -> None:
    """Wait until this number of workers have partitions."""

    async def find() -> bool:
        rows = await database.fetch("select distinct reader from inboxd.stream_positions")
        return len(rows) == workers and all(row["reader"] for row in rows)

    await eventually(find)


async def test_partitions_are_rebalanced_under_load(database: Database, kafka: MockKafka) -> None:
    """A worker joins, another leaves: each message is stored once, in the order of its key."""
    topic = kafka.topic(partitions=6)
    leaves = anyio.Event()

    async def first() -> None:
        async with reading(database, kafka, topic):
            await leaves.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        tasks.start_soon(publish, kafka, topic, 1, 1500)
        await stored(database, 100)
        async with reading(database, kafka, topic):
            await _is_divided(database, 2)
            tasks.start_soon(publish, kafka, topic, 1501, 2000)
            leaves.set()
            with safety():
                assert await stored(database, 2000) == [*range(1, 2001)]
            await settled(database)
    rows = await database.fetch(
        "select (payload ->> 'n')::int as n, ordering_key as key from inboxd.events_history"
        " order by created_at, 1"  # all events of a page have the same time
    )
    by_key = defaultdict(list)
    for row in rows:
        by_key[row["key"]].append(row["n"])
    with safety():
        assert len(by_key) == KEYS
        for numbers in by_key.values():
            assert numbers == sorted(numbers), "a page is stored whole, and in its order"


async def test_messages_removed_by_the_broker_stop_the_source(
    database: Database, kafka: MockKafka
) -> None:
    topic = kafka.topic(partitions=1)
    async with reading(database, kafka, topic):
        await publish(kafka, topic, 1, 10)
        await stored(database, 10)
    await publish(kafka, topic, 11, 30)
    kafka.forget(topic, 0, 20)
    async with reading(database, kafka, topic):

        async def is_lost() -> str:
            found = await database.fetchval(
                "select trouble from inboxd.message_readers where state = 'lost'"
            )
            return str(found or "")

        told = await eventually(is_lost)
        assert f"inboxd messages reset results {topic}/0" in told
        with safety():
            assert await stored(database, 10) == [*range(1, 11)]


def test_sessions_are_short_here() -> None:
    """With long sessions these tests would take minutes."""
    assert member._SESSION_MS < 10_000
