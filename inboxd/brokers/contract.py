"""The interface to brokers: publishing messages, and consuming messages.

A publisher or consumer is used by one task at a time, and closed and opened again after any error
except `MessageRefused`, so it need not reconnect. A plugin's publisher (entry points
`inboxd.publishers`) keeps the same contract. *See:* `events/relays/`; `inbound/messages/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias


class OutgoingMessage(NamedTuple):
    """`to`: the Kafka topic, the RabbitMQ routing key, or the NATS subject. exchange: of RabbitMQ.

    key: messages with one key are published in order; None: in any order. id: the event's uuid;
    several relays may publish one event, so only the same id with the same `to` is a repetition.
    attributes: CloudEvents attributes, without a prefix. headers: the event's own, and traceparent.
    """

    to: str
    key: str | None
    id: str
    body: bytes
    content_type: str = "application/json"
    attributes: Mapping[str, str] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})
    exchange: str = ""


class LeftOutBody(NamedTuple):
    """Size in bytes and hash of a body that was not kept, since it exceeded `max_body`."""

    size: int
    sha256: str


def kept(body: bytes, most: int) -> tuple[bytes, LeftOutBody | None]:
    """The body and None; or, for a body of more than `most` bytes, b"" and its size and hash."""
    if len(body) <= most:
        return body, None
    return b"", LeftOutBody(len(body), hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """stream: "TOPIC/PARTITION" of Kafka, or the name of a NATS stream, a RabbitMQ stream or queue.

    position: its offset (Kafka, RabbitMQ stream) or sequence (NATS); None: a RabbitMQ queue has no
    positions. identity: distinguishes streams of the same name; "": not known. The part behind a
    space identifies the message; for a RabbitMQ stream the whole text does. sent_to: the Kafka
    topic, NATS subject or RabbitMQ routing key. headers: names in lower case; values that are not
    UTF-8 are decoded as Latin-1. id: from the broker's own field. sent_at: seconds since the epoch.
    token: for the acknowledgement. left_out: describes a body that was not kept; then `body` is
    empty.
    """

    stream: str
    position: int | None
    body: bytes
    identity: str = ""
    key: str | None = None
    sent_to: str = ""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    sent_at: float | None = None
    redelivered: bool = False
    token: object = None
    left_out: LeftOutBody | None = None


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a stream is stored: the position and the identity of its last stored message."""

    position: int
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStream:
    """oldest, end: positions of the first and the last message; None: the broker has no positions.

    waiting: the number of messages behind the stored position; None: not known. lost: why reading
    cannot continue; "": it can. latest: the last messages up to the stored position.
    """

    stream: str
    oldest: int | None
    end: int | None
    waiting: int | None
    lost: str = ""
    latest: Sequence[IncomingMessage] = ()


# Called with a message's index in the page and its result: None if it is confirmed, else the reason
# of the refusal (MessageRefused).
Tell: TypeAlias = Callable[[int, Exception | None], None]


# Opens a stream for this reader, shuts out other readers, and returns the stored position; None:
# begin with the oldest message. Called with the stream and, if its broker has positions, its last
# position now. If nothing is stored yet and the source begins with the newest message, that
# position counts as stored. A position without an identity was set by an operator and is not
# checked.
Stored: TypeAlias = Callable[..., Awaitable[StreamPosition | None]]


class Publisher(Protocol):
    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        """Publish in the order given; call `tell` for each message as soon as its result is known.

        Raises BrokerUnavailable if the broker was lost: messages without a result may have been
        published. The caller sets the time limit. After a cancellation nothing more must be sent:
        `close` follows.
        """

    async def close(self) -> None:
        """Close the connection at once, and send nothing more. Does not raise."""


class Consumer(Protocol):
    """Reads a stream from behind the stored position (`Stored`), or from the oldest message.

    Opening and receiving raise StreamLost if the broker no longer has the messages behind the
    stored position, or has another stream of that name; BrokerUnavailable for a temporary failure.
    Bodies above the source's `max_body` are not kept; held messages are bounded in number.
    """

    async def receive(self, most: int, within: float) -> Sequence[IncomingMessage]:
        """Messages in each stream's order; empty if none came. within: seconds to wait for one."""

    async def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        """Acknowledge messages as stored: in order and without gaps in each stream."""

    async def lag(self) -> int | None:
        """The number of messages at the broker that are not received yet; None: not known."""

    async def close(self) -> None:
        """Close the connection and return unacknowledged messages to the broker. Does not raise."""
