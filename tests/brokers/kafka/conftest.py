"""A mock of a Kafka cluster for each module; each test takes topics of its own from it."""

from collections.abc import Iterator

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from anyio import sleep

from inboxd.brokers.kafka import member
from tests.support.kafka import MockKafka, mock_kafka


@pytest.fixture(scope="module")
def cluster(one_kafka: None) -> Iterator[MockKafka]:
    with mock_kafka() as running:
        yield running


@pytest.fixture(autouse=True)
def quick_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the mock's groups rebalance soon, and assign all members their partitions.

    The mock rebalances a second before a session would end, however soon all have joined; and it
    refuses members that ask for their partitions after their leader has sent the assignment, which
    no real broker does.
    """
    monkeypatch.setattr(member, "_SESSION_MS", 1500)
    monkeypatch.setattr(member, "_HEARTBEAT_MS", 100)
    divide = GroupCoordinator._perform_assignment

    async def divide_later(coordinator: GroupCoordinator, response: object) -> object:
        await sleep(0.1)
        return await divide(coordinator, response)

    monkeypatch.setattr(GroupCoordinator, "_perform_assignment", divide_later)


@pytest.fixture
def kafka(cluster: MockKafka) -> Iterator[MockKafka]:
    """The module's cluster, without faults."""
    yield cluster
    cluster.heal()
