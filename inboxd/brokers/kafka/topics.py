"""State of Kafka topics, on connections of its own: aiokafka's consumer may leave some open."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import (
    LeaderNotAvailableError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition
from anyio import fail_after

from inboxd.brokers.kafka.access import LOST, Access, why_not_reached
from inboxd.brokers.kafka.cluster import KafkaCluster, open_cluster
from inboxd.brokers.kafka.topic_ids import topic_ids

UNKNOWN = "unknown"
_NO_REPLICA, _COMMITTED = -1, 1
_OLDEST, _END = -2, -1


@dataclass(frozen=True, slots=True)
class Offsets:
    """The oldest offset of a partition, and the offset of its next message."""

    oldest: int
    end: int

    def __contains__(self, offset: int) -> bool:
        """Whether reading can continue at this offset."""
        return self.oldest <= offset <= self.end

    def __str__(self) -> str:
        return f"{self.oldest} to {self.end - 1}" if self.end > self.oldest else "nothing"


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    partitions: int
    """The number of partitions of all topics."""
    ids: Mapping[str, str]
    """By topic; `UNKNOWN` from brokers without ids."""
    offsets: Mapping[TopicPartition, Offsets]
    """Of the partitions that were asked for."""


async def kafka_topics(
    access: Access, names: Sequence[str], partitions: Collection[TopicPartition] | None = ()
) -> KafkaTopics:
    """partitions: to get offsets of; None: all. A missing topic is BrokerUnavailable."""
    cluster = await open_cluster(access)
    try:
        with fail_after(access.patience):
            missing = await cluster.look_up(names, create=False)
            for name, why in missing.items():
                raise access.unavailable(_why_missing(name, why))
            ids = await topic_ids(cluster, names)
            if partitions is None:
                partitions = _all_partitions(cluster, names)
            oldest = await _offsets(cluster, partitions, _OLDEST)
            ends = await _offsets(cluster, partitions, _END)
    except LOST as error:
        raise access.unavailable(why_not_reached(access, error)) from error
    finally:
        await cluster.close()
    return KafkaTopics(
        sum(len(cluster.leaders[name]) for name in names),
        {name: ids.get(name, UNKNOWN) for name in names},
        {each: Offsets(oldest[each], ends[each]) for each in partitions},
    )


def _all_partitions(cluster: KafkaCluster, names: Sequence[str]) -> list[TopicPartition]:
    return [
        TopicPartition(name, number)
        for name in names
        for number in range(len(cluster.leaders[name]))
    ]


async def _offsets(
    cluster: KafkaCluster, partitions: Collection[TopicPartition], which: int
) -> dict[TopicPartition, int]:
    """which: `_OLDEST` or `_END`. Raises one of `LOST`."""
    by_broker: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for topic, partition in partitions:
        broker = cluster.leader(topic, partition)
        if broker is None:
            raise LeaderNotAvailableError(f"partition {topic}/{partition}")
        by_broker.setdefault(broker, {}).setdefault(topic, []).append((partition, which))
    found: dict[TopicPartition, int] = {}
    for broker, topics in by_broker.items():
        request = OffsetRequest(_NO_REPLICA, _COMMITTED, [*topics.items()])
        answer: Any = await cluster.send(broker, request)
        for topic, answers in answer.topics:
            for partition, code, _, offset in answers:
                if (error := for_code(code)) is not NoError:
                    raise error(f"partition {topic}/{partition}")
                found[TopicPartition(topic, partition)] = offset
    return found


def _why_missing(name: str, error: type[Exception]) -> str:
    if error is TopicAuthorizationFailedError:
        return f"the Kafka topic {name!r} may not be read: grant the user READ and DESCRIBE."
    if error is UnknownTopicOrPartitionError:
        return f"there is no Kafka topic {name!r}: create it, or correct kafka_topics."
    return f"the Kafka topic {name!r} is not available: {error.__name__}."
