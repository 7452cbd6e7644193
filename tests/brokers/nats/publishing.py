"""Messages that tests publish to NATS, and their results.

told = Told()
async with publisher_at(broker) as publisher:
    await publisher.publish(some_messages("a.b", 2), told)
assert told.confirmed == [0, 1]
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.nats import open_publisher
from inboxd.brokers.nats.publisher import NatsPublisher
from inboxd.errors import MessageRefused
from inboxd.settings import Broker
from tests.support.verdicts import safety


class Told:
    """The result of each message of a page, by its index."""

    def __init__(self) -> None:
        self.errors: dict[int, Exception | None] = {}

    def __call__(self, place: int, error: Exception | None) -> None:
        """Note the result of a message, which must have only one."""
        with safety():
            assert place not in self.errors
        self.errors[place] = error

    @property
    def confirmed(self) -> list[int]:
        """The indexes of confirmed messages."""
        return sorted(place for place, error in self.errors.items() if error is None)

    def refused(self, place: int) -> MessageRefused:
        """The refusal of a message."""
        error = self.errors[place]
        assert isinstance(error, MessageRefused)
        return error


@asynccontextmanager
async def publisher_at(broker: Broker) -> AsyncIterator[NatsPublisher]:
    """A publisher that is closed at the end."""
    publisher = await open_publisher("main", broker)
    try:
        yield publisher
    finally:
        await publisher.close()


def a_message(
    to: str,
    number: int = 1,
    *,
    body: bytes = b"{}",
    headers: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> OutgoingMessage:
    """A message; its id has its number and its subject."""
    return OutgoingMessage(
        to=to,
        key=None,
        id=f"{to}-{number}",
        body=body,
        attributes={
            "specversion": "1.0",
            "id": str(number),
            "source": "/tests",
            "type": "t",
            **(attributes or {}),
        },
        headers=headers or {},
    )


def some_messages(to: str, count: int, body: bytes = b"{}") -> list[OutgoingMessage]:
    """Messages 1 to `count` for one subject."""
    return [a_message(to, number, body=body) for number in range(1, count + 1)]
