"""Messages that tests publish to RabbitMQ and consume, and their results.

told = Told()
async with publisher_at(broker) as publisher:
    await publisher.publish(some_messages(queue.name, 2), told)
assert told.confirmed == [0, 1]
"""

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from inboxd.brokers.contract import Consumer, OutgoingMessage, Publisher, StreamPosition
from inboxd.brokers.rabbitmq import open_consumer, open_publisher
from inboxd.errors import MessageRefused
from inboxd.settings import Broker, MessageSource
from tests.support.rabbitmq import PASSWORD, USER
from tests.support.verdicts import safety


class Told:
    """The result of each message of a page, by its index."""

    def __init__(self) -> None:
        self.errors: dict[int, Exception | None] = {}

    def __call__(self, place: int, error: Exception | None) -> None:
        """Note the only result of a message."""
        with safety():
            assert place not in self.errors
        self.errors[place] = error

    @property
    def confirmed(self) -> list[int]:
        """The indexes of confirmed messages."""
        return sorted(place for place, error in self.errors.items() if error is None)

    @property
    def refused(self) -> dict[int, MessageRefused]:
        """The refusals of messages, by their indexes."""
        found = {}
        for place, error in self.errors.items():
            if error is not None:
                assert isinstance(error, MessageRefused)
                found[place] = error
        return found


def broker_at(*servers: str, **more: object) -> Broker:
    """The settings of a broker with these servers."""
    login = {"user": USER, "password": PASSWORD}
    return Broker.model_validate({"kind": "rabbitmq", "servers": servers, **login, **more})


def a_message(to: str, body: bytes = b"{}", **more: object) -> OutgoingMessage:
    """A message with an id of its own."""
    given: Mapping[str, object] = {"id": str(uuid.uuid4()), "key": None, **more}
    return OutgoingMessage(to=to, body=body, **given)  # type: ignore[arg-type]


def some_messages(to: str, count: int, size: int = 1) -> list[OutgoingMessage]:
    """Messages 0 to `count` - 1 for one queue."""
    return [a_message(to, str(number).encode().rjust(size)) for number in range(count)]


@asynccontextmanager
async def publisher_at(broker: Broker) -> AsyncIterator[Publisher]:
    """A publisher that is closed at the end."""
    publisher = await open_publisher("main", broker)
    try:
        yield publisher
    finally:
        await publisher.close()


@asynccontextmanager
async def consumer_at(broker: Broker, queue: str, **more: object) -> AsyncIterator[Consumer]:
    """A consumer that is closed at the end."""
    settings = MessageSource.model_validate({"rabbitmq_queue": queue, "broker": "main", **more})
    consumer = await open_consumer("main", broker, "orders", settings, _nothing)
    try:
        yield consumer
    finally:
        await consumer.close()


async def messages_of(queue: AbstractQueue) -> list[AbstractIncomingMessage]:
    """Take all ready messages from a queue."""
    found = []
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        found.append(message)
    return found


async def bodies_of(queue: AbstractQueue) -> list[bytes]:
    """Take all ready messages from a queue; returns their bodies."""
    return [message.body for message in await messages_of(queue)]


async def count_of(queue: AbstractQueue) -> int:
    """The number of ready messages in a queue."""
    return (await queue.declare()).message_count or 0


async def _nothing(stream: str) -> StreamPosition | None:
    return None
