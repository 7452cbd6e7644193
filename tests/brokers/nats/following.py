"""A source of a NATS stream, and an inbox that stores its messages as the engine does.

stored = StoredMessages()
async with consumer_at(broker, follows(stream), stored) as consumer:
    await store(consumer, stored, 3)
assert stored.numbers == [1, 2, 3]
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from inboxd.brokers.contract import Consumer, IncomingMessage, StreamPosition
from inboxd.brokers.nats import open_consumer
from inboxd.errors import StreamLost
from inboxd.settings import Broker, MessageSource
from tests.brokers.nats.conftest import Stream
from tests.support.verdicts import Late, safety
from tests.support.waiting import bounded, patient

DURABLE = "inboxd-orders"
"""The server's name for the source's consumer."""
REMEDY = "Set where to continue: inboxd messages reset orders {} --to oldest|newest|POSITION."

_WITHIN = patient()


class StoredMessages:
    """An inbox of one stream: messages at or before its position are passed over."""

    def __init__(self, *, newest: bool = False) -> None:
        """Nothing is stored. newest: it begins behind the messages that exist."""
        self._newest = newest
        self.position: StreamPosition | None = None
        self.messages: list[IncomingMessage] = []
        self.passed_over = 0

    async def __call__(
        self, stream: str, end: StreamPosition | None = None
    ) -> StreamPosition | None:
        """The stored position, as of `Stored`."""
        assert stream
        if self.position is None and self._newest:
            self.position = end
        return self.position

    def store(self, messages: Sequence[IncomingMessage]) -> None:
        """Store a page, as one transaction does."""
        for message in messages:
            assert message.position is not None
            if self.position is not None and message.position <= self.position.position:
                self.passed_over += 1
                continue
            self.messages.append(message)
            self.position = StreamPosition(message.position, message.identity)

    @property
    def numbers(self) -> list[int]:
        """The bodies of the messages as numbers, in the order of storing."""
        return [int(message.body) for message in self.messages]


@asynccontextmanager
async def consumer_at(
    broker: Broker, settings: MessageSource, stored: StoredMessages
) -> AsyncIterator[Consumer]:
    """A consumer that is closed at the end."""
    consumer = await open_consumer("main", broker, "orders", settings, stored)
    try:
        yield consumer
    finally:
        await consumer.close()


async def take(consumer: Consumer, count: int) -> list[IncomingMessage]:
    """Receive `count` messages without acknowledging them."""
    found: list[IncomingMessage] = []
    while len(found) < count:
        page = await consumer.receive(count - len(found), _WITHIN)
        if not page:
            raise Late(f"only {len(found)} of {count} came")
        found += page
    return found


async def store(consumer: Consumer, stored: StoredMessages, count: int) -> None:
    """Receive `count` messages, store and acknowledge them."""
    page = await take(consumer, count)
    stored.store(page)
    await consumer.acknowledge(page)


async def receive_until_it_fails(consumer: Consumer, stored: StoredMessages | None = None) -> None:
    """Receive, and store if `stored` is given, until an error is raised."""
    with bounded():
        while True:
            page = await consumer.receive(10, 0.2)
            if stored is not None:
                stored.store(page)


def follows(stream: Stream, *subjects: str, **more: object) -> MessageSource:
    """The settings of a source that follows a stream. subjects: below its prefix."""
    return MessageSource.model_validate(
        {
            "nats_stream": stream.name,
            "nats_subjects": [f"{stream.prefix}.{subject}" for subject in subjects],
            **more,
        }
    )


async def stored_of(broker: Broker, settings: MessageSource, count: int) -> StoredMessages:
    """An inbox that has stored `count` messages of a stream."""
    stored = StoredMessages()
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, count)
    return stored


async def lost_by(broker: Broker, settings: MessageSource, stored: StoredMessages) -> str:
    """The StreamLost of an opening; a second opening raises the same, so nothing has changed."""
    said = []
    for _ in range(2):
        with safety(), pytest.raises(StreamLost) as told:
            async with consumer_at(broker, settings, stored):
                pass
        said.append(str(told.value))
    assert said[0] == said[1]
    assert said[0].endswith(REMEDY.format(settings.nats_stream))
    return said[0]
