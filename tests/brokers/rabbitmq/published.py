"""What tests publish and consume, and what they are told of it."""

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
    """What became of each message of a page."""

    def __init__(self) -> None:
        self.errors: dict[int, Exception | None] = {}

    def __call__(self, place: int, error: Exception | None) -> None:
        """Told once of each."""
        with safety():
            assert place not in self.errors
        self.errors[place] = error

    @property
    def confirmed(self) -> list[int]:
        """The places of those that are."""
        return sorted(place for place, error in self.errors.items() if error is None)

    @property
    def refused(self) -> dict[int, MessageRefused]:
        """Why each of the others was, by its place."""
        found = {}
        for place, error in self.errors.items():
            if error is not None:
                assert isinstance(error, MessageRefused)
                found[place] = error
        return found


def broker_at(*servers: str, **more: object) -> Broker:
    """The settings of a broker there."""
    login = {"user": USER, "password": PASSWORD}
    return Broker.model_validate({"kind": "rabbitmq", "servers": servers, **login, **more})


def a_message(to: str, body: bytes = b"{}", **more: object) -> OutgoingMessage:
    """A message with an id of its own."""
    given: Mapping[str, object] = {"id": str(uuid.uuid4()), "key": None, **more}
    return OutgoingMessage(to=to, body=body, **given)  # type: ignore[arg-type]


def some_messages(to: str, count: int, size: int = 1) -> list[OutgoingMessage]:
    """So many to one queue, numbered from 0 on."""
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
    """All that are ready in it, taken from it."""
    found = []
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        found.append(message)
    return found


async def bodies_of(queue: AbstractQueue) -> list[bytes]:
    """Their bodies."""
    return [message.body for message in await messages_of(queue)]


async def count_of(queue: AbstractQueue) -> int:
    """How many messages are ready in it."""
    return (await queue.declare()).message_count or 0


async def _nothing(stream: str) -> StreamPosition | None:
    return None
