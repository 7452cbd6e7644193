"""What tests publish, and what they are told of it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.nats import open_publisher
from inboxd.brokers.nats.publisher import NatsPublisher
from inboxd.errors import MessageRefused
from inboxd.settings import Broker
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

    def refused(self, place: int) -> MessageRefused:
        """Why one was."""
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
    """A message; its id has its number and where it goes."""
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
    """So many to one subject, numbered from 1 on."""
    return [a_message(to, number, body=body) for number in range(1, count + 1)]
