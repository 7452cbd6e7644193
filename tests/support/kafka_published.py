"""Messages that tests publish to the mock of Kafka, and checks of the records that arrived.

    async with publisher_to(kafka) as publisher:
        assert not await published(publisher, [outgoing(topic, "body")])
    check_sequences(await kafka.records(topic))

Each check raises `Violation`.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import uuid4

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.kafka import open_publisher
from inboxd.brokers.kafka.publisher import KafkaPublisher
from inboxd.errors import MessageRefused
from tests.support.kafka import MockKafka, Record
from tests.support.verdicts import safety


def outgoing(to: str, body: str | bytes, key: str | None = "k") -> OutgoingMessage:
    """A message as a relay makes it."""
    id = str(uuid4())
    return OutgoingMessage(
        to=to,
        key=key,
        id=id,
        body=body if isinstance(body, bytes) else body.encode(),
        attributes={"specversion": "1.0", "id": id, "source": "/tests", "type": "test.done"},
        headers={"traceparent": "00-1-2-01"},
    )


async def published(
    publisher: KafkaPublisher, messages: Sequence[OutgoingMessage]
) -> dict[int, MessageRefused]:
    """Publish; return the refused messages by their places. Each message must be reported once."""
    told: dict[int, Exception | None] = {}

    def tell(place: int, refusal: Exception | None) -> None:
        with safety():
            assert place not in told
        told[place] = refusal

    await publisher.publish(messages, tell)
    with safety():
        assert len(told) == len(messages)
    return {place: each for place, each in told.items() if isinstance(each, MessageRefused)}


@asynccontextmanager
async def publisher_to(kafka: MockKafka, **settings: str) -> AsyncIterator[KafkaPublisher]:
    publisher = await open_publisher("main", kafka.broker(**settings))
    try:
        yield publisher
    finally:
        await publisher.close()


def bodies(records: Sequence[Record]) -> list[str]:
    """The values of records, as text."""
    return [(record.value or b"").decode() for record in records]


def check_sequences(records: Sequence[Record]) -> None:
    """Check as a broker does: per producer and partition no sequence is missing or repeated."""
    spent: dict[tuple[str, int, int], int] = defaultdict(int)
    batches: dict[tuple[str, int, int, int], int] = defaultdict(int)
    for each in records:
        batches[each.topic, each.partition, each.producer, each.sequence] += 1
    for (topic, partition, producer, sequence), count in batches.items():
        with safety():
            assert spent[topic, partition, producer] == sequence
        spent[topic, partition, producer] += count
