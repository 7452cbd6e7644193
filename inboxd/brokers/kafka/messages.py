"""Turns records of Kafka into messages; a tombstone becomes a message with an empty body."""

from collections.abc import Mapping, Sequence

from aiokafka.structs import ConsumerRecord, TopicPartition

from inboxd.brokers.contract import IncomingMessage, kept
from inboxd.brokers.kafka.batches import CONTENT_TYPE


def stream(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.partition}"


def messages(
    partition: TopicPartition, records: Sequence[ConsumerRecord], identity: str, max_body: int
) -> list[IncomingMessage]:
    name = stream(partition)
    found = []
    for record in records:
        headers = _headers(record.headers)
        body, left_out = kept(record.value or b"", max_body)
        found.append(
            IncomingMessage(
                stream=name,
                position=record.offset,
                body=body,
                identity=identity,
                key=None if record.key is None else _text(record.key),
                sent_to=partition.topic,
                content_type=headers.get(CONTENT_TYPE),
                headers=headers,
                sent_at=record.timestamp / 1000 if record.timestamp >= 0 else None,
                token=partition,
                left_out=left_out,
            )
        )
    return found


def _headers(pairs: Sequence[tuple[str, bytes | None]]) -> Mapping[str, str]:
    """Of several headers with one name, the last counts."""
    try:
        return {name.lower(): value.decode() for name, value in pairs if value is not None}
    except UnicodeDecodeError:
        return {name.lower(): _text(value) for name, value in pairs if value is not None}


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
