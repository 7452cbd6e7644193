"""Record batches: messages of one partition in Kafka's format, in the page's order.

A key goes to the partition that Kafka's own clients choose, so that it stays in order with messages
of other publishers; a page's messages without a key share one partition. Known limit: when
partitions are added to a Kafka topic, a key may move, and both partitions are read at the same
time.
"""

import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition

from inboxd.brokers import cloud_events
from inboxd.brokers.contract import OutgoingMessage, Tell
from inboxd.brokers.kafka.verdict import TOO_LARGE, refused_message
from inboxd.errors import MessageRefused

# Limit of a batch, unless one message alone is larger: half the default limit of a Kafka topic.
MOST_BYTES = 512 * 1024
# By default, brokers close the connection on a request of more than 100 MiB.
_LARGEST = 64 * 1024 * 1024
PREFIX = "ce_"
CONTENT_TYPE = "content-type"
_MAGIC, _UNCOMPRESSED, _TRANSACTIONAL, _NO_PRODUCER = 2, 0, 0, -1
_SEED, _FACTOR, _BITS, _POSITIVE = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF, 0x7FFFFFFF

Headers: TypeAlias = list[tuple[str, bytes]]
# The batches of each partition in the order of sending; only one batch is sent at a time.
Lines: TypeAlias = dict[TopicPartition, deque["KafkaBatch"]]


def _builder(most_bytes: int) -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(
        _MAGIC, _UNCOMPRESSED, _TRANSACTIONAL, _NO_PRODUCER, _NO_PRODUCER, 0, most_bytes
    )


@dataclass(slots=True)
class KafkaBatch:
    builder: DefaultRecordBatchBuilder
    places: list[int] = field(default_factory=list)
    """The indexes of its messages in the page."""
    data: bytearray | None = None
    """The bytes as they were sent first; a repetition sends the same."""
    unclear: bool = False
    """An answer was lost, so the broker may have written it."""

    def numbered(self, producer: tuple[int, int], sequence: int) -> bytearray:
        """The bytes to send: by producer id and sequence, the broker recognises a repetition."""
        if self.data is None:
            self.builder.set_producer_state(*producer, sequence)
            self.data = self.builder.build()
        return self.data


def batched(
    messages: Sequence[OutgoingMessage],
    leaders: Mapping[str, Sequence[int]],
    most_bytes: Mapping[str, int],
    turn: int,
    tell: Tell,
) -> Lines:
    """most_bytes: where less than `MOST_BYTES`; turn: the page, for messages without key."""
    lines: Lines = {}
    partitions = {
        topic: [TopicPartition(topic, number) for number in range(len(found))]
        for topic, found in leaders.items()
    }
    now = _now()
    for place, message in enumerate(messages):
        if (choice := partitions.get(message.to)) is None:
            continue
        try:
            headers = _headers(message)
        except MessageRefused as refusal:
            tell(place, refusal)
            continue
        if message.key is None:
            key, partition = None, choice[turn % len(choice)]
        else:
            key = message.key.encode()
            partition = choice[(murmur2(key) & _POSITIVE) % len(choice)]
        line = lines.get(partition)
        if line is None:
            most = most_bytes.get(message.to, MOST_BYTES)
            line = lines[partition] = deque([KafkaBatch(_builder(most))])
        batch = line[-1]
        if batch.builder.append(len(batch.places), now, key, message.body, headers) is None:
            batch = KafkaBatch(_builder(most_bytes.get(message.to, MOST_BYTES)))
            batch.builder.append(0, now, key, message.body, headers)
            line.append(batch)
        batch.places.append(place)
    return lines


def halves(batch: KafkaBatch, messages: Sequence[OutgoingMessage]) -> list[KafkaBatch]:
    middle, now = len(batch.places) // 2, _now()
    found = []
    for places in (batch.places[:middle], batch.places[middle:]):
        half = KafkaBatch(_builder(len(batch.data or b"")), places)
        for offset, place in enumerate(places):
            message = messages[place]
            key = None if message.key is None else message.key.encode()
            half.builder.append(offset, now, key, message.body, _headers(message))
        found.append(half)
    return found


def murmur2(key: bytes) -> int:
    """Kafka's hash of a key; takes half the time of aiokafka's own."""
    whole = len(key) // 4
    found = _SEED ^ len(key)
    for word in struct.unpack_from(f"<{whole}I", key):
        mixed = word * _FACTOR & _BITS
        found = (found * _FACTOR & _BITS) ^ ((mixed ^ mixed >> 24) * _FACTOR & _BITS)
    if rest := key[4 * whole :]:
        found = (found ^ int.from_bytes(rest, "little")) * _FACTOR & _BITS
    found = (found ^ found >> 13) * _FACTOR & _BITS
    return found ^ found >> 15


def _headers(message: OutgoingMessage) -> Headers:
    """Raises MessageRefused for headers or a body that cannot be sent."""
    if len(message.body) > _LARGEST:
        raise refused_message(message.to, TOO_LARGE, len(message.body))
    found = [
        (name, value.encode()) for name, value in cloud_events.headers(message, PREFIX).items()
    ]
    found.append((CONTENT_TYPE, message.content_type.encode()))
    return found


def _now() -> int:
    return int(time.time() * 1000)
