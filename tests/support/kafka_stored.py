"""An inbox for a Kafka consumer: a page is stored with its positions, or not at all.

    inbox = Inbox()
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, count=10)

Positions are compared and set, as the engine does in the transaction that stores the events.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal

from inboxd.brokers.contract import IncomingMessage, StreamPosition
from inboxd.brokers.kafka import open_consumer
from inboxd.brokers.kafka.consumer import KafkaConsumer
from inboxd.settings import Broker, MessageSource
from tests.support.kafka import MockKafka
from tests.support.verdicts import Late, safety
from tests.support.waiting import patient

WITHIN = patient()
_GROUPS = count()


class Inbox:
    """The stored messages, in order. begin: where streams without a stored position begin."""

    def __init__(self, begin: Literal["oldest", "newest"] = "oldest") -> None:
        self.positions: dict[str, StreamPosition] = {}
        self.messages: list[IncomingMessage] = []
        self._begin = begin

    async def stored(self, stream: str, last: StreamPosition) -> StreamPosition | None:
        if self._begin == "newest":
            return self.positions.setdefault(stream, last)
        return self.positions.get(stream)

    def store(self, messages: Sequence[IncomingMessage]) -> None:
        """Store all messages of a page; each must be the next one of its stream."""
        positions = dict(self.positions)
        for message in messages:
            assert message.position is not None
            before = positions.get(message.stream)
            if before is not None and before.identity:
                with safety():
                    assert message.position == before.position + 1, (before, message)
            positions[message.stream] = StreamPosition(message.position, message.identity)
        self.positions = positions
        self.messages += messages

    def bodies(self) -> list[str]:
        """The bodies of all messages, as text."""
        return [message.body.decode() for message in self.messages]


@asynccontextmanager
async def consumer_of(
    kafka: MockKafka,
    inbox: Inbox,
    *topics: str,
    connect_timeout: str = "2s",
    broker: Broker | None = None,
    **source: Any,
) -> AsyncIterator[KafkaConsumer]:
    """Open a consumer of Kafka topics, in a group of its own unless a group is named."""
    group = f"group-{next(_GROUPS)}"
    settings = MessageSource.model_validate(
        {"broker": "main", "kafka_topics": topics, "kafka_group": group, **source}
    )
    broker = broker or kafka.broker(connect_timeout=connect_timeout)
    consumer = await open_consumer("main", broker, "source", settings, inbox.stored)
    try:
        yield consumer
    finally:
        await consumer.close()


async def store_all(consumer: KafkaConsumer, inbox: Inbox, count: int) -> None:
    """Receive and store until the inbox has at least `count` messages."""
    while len(inbox.messages) < count:
        page = await consumer.receive(1000, WITHIN)
        if not page:
            raise Late(f"{len(inbox.messages)} of {count} came")
        inbox.store(page)
        await consumer.acknowledge(page)


async def receive_for_ever(consumer: KafkaConsumer, within: float) -> None:
    while True:
        await consumer.receive(10, within)
