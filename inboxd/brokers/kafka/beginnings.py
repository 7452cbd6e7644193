"""Where a partition begins: behind its stored position, or with its oldest message.

The group's committed offsets are never used: after a restore of the database they would be too
late. A stored position counts only while the broker has the messages behind it, in the same Kafka
topic. A position without an identity was set by an operator; if the oldest message is later,
reading continues with that. Known limits: brokers before Kafka 2.8 have no topic ids, so a topic
that was created anew and has grown past the position is not noticed; for added partitions "newest"
means the last message when they are noticed, up to a minute later.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from aiokafka.structs import TopicPartition

from inboxd.brokers.contract import Stored, StreamPosition
from inboxd.brokers.kafka.messages import stream
from inboxd.brokers.kafka.topics import UNKNOWN, KafkaTopics, Offsets
from inboxd.errors import StreamLost

Positions: TypeAlias = Mapping[TopicPartition, StreamPosition | None]


async def opened(stored: Stored, topics: KafkaTopics) -> Positions:
    return {
        partition: await stored(
            stream(partition), StreamPosition(offsets.end - 1, topics.ids[partition.topic])
        )
        for partition, offsets in topics.offsets.items()
    }


def beginnings(source: str, positions: Positions, topics: KafkaTopics) -> dict[TopicPartition, int]:
    """topics: looked up after `opened`; before, another reader may store. Raises StreamLost."""
    found = {}
    for partition, position in positions.items():
        offsets, identity = topics.offsets[partition], topics.ids[partition.topic]
        if position is None:
            found[partition] = offsets.oldest
        else:
            found[partition] = _behind(source, partition, position, offsets, identity)
    return found


def lost(
    source: str, partition: TopicPartition, position: int, offsets: Offsets, why: str
) -> StreamLost:
    name = stream(partition)
    return StreamLost(
        f"source {source!r}, stream {name}: position {position} is stored, and the broker has "
        f"{offsets}: {why}. {_remedy(source, name)}"
    )


def created_anew(
    source: str, read: Iterable[TopicPartition], topic: str, before: str, now: str
) -> StreamLost:
    name = stream(min(each for each in read if each.topic == topic))
    return StreamLost(
        f"source {source!r}, stream {name}: the Kafka topic was created anew while it was read "
        f"(its id was {before}, is {now}). {_remedy(source, name)}"
    )


def _remedy(source: str, name: str) -> str:
    return (
        f"Set where to continue: inboxd messages reset {source} {name} --to oldest|newest|POSITION."
    )


def _behind(
    source: str,
    partition: TopicPartition,
    stored: StreamPosition,
    offsets: Offsets,
    identity: str,
) -> int:
    offset = stored.position + 1
    known = UNKNOWN not in (stored.identity, identity)
    if stored.identity and known and stored.identity != identity:
        why = f"the Kafka topic was created anew (its id was {stored.identity}, is {identity})"
    elif offset > offsets.end:
        why = "it ends earlier, since the Kafka topic was created anew, or has lost messages"
    elif not stored.identity:
        return max(offset, offsets.oldest)
    elif offset < offsets.oldest:
        why = "what followed was deleted (retention)"
    else:
        return offset
    raise lost(source, partition, stored.position, offsets, why)
