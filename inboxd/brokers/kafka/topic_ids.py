"""Ids of Kafka topics (KIP-516): a topic that is deleted and created again has another id.

aiokafka requests metadata of version 5 at most, which has no ids; this is version 10, of Kafka 2.8.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any
from uuid import UUID

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from inboxd.brokers.kafka.cluster import KafkaCluster

_METADATA, _VERSION = 3, 10
_NONE = UUID(int=0)
_TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)


class _Id(AbstractType):
    @classmethod
    def encode(cls, value: UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> UUID:
        return UUID(bytes=data.read(16))


class _TopicIdsAnswer(Response):
    API_KEY = _METADATA
    API_VERSION = _VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), _TAGS
            ),
        ),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", _TEXT),
                ("topic_id", _Id),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        _TAGS,
                    ),
                ),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        ("authorized_operations", Int32),
        _TAGS,
    )


class _Question(RequestStruct):
    API_KEY = _METADATA
    API_VERSION = _VERSION
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _TopicIdsAnswer
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Id), ("topic", _TEXT), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        _TAGS,
    )


class _TopicIds(Request[_Question]):
    API_KEY = _METADATA

    def __init__(self, topics: Iterable[str]) -> None:
        tags: dict[int, bytes] = {}
        self._topics = [(_NONE, topic, tags) for topic in topics]

    def build(self, struct: type[_Question]) -> _Question:
        return struct(
            topics=self._topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            tags={},
        )


async def topic_ids(cluster: KafkaCluster, names: Sequence[str]) -> dict[str, str]:
    """Ids of existing topics; empty for older brokers. Raises the same as `KafkaCluster.ask`."""
    try:
        answer: Any = await cluster.ask(_TopicIds(names))
    except (IncompatibleBrokerVersion, NotImplementedError):
        return {}
    return {topic: str(id) for error, topic, id, *_ in answer.topics if not error and id != _NONE}
