"""The interface to brokers: publishing messages, and consuming messages.

Owns the protocols `Publisher` and `Consumer`, and their types. A relay publishes through a
publisher; a source of messages reads from a consumer. Each is opened by a factory (`kinds`), used
by one task at a time, closed after any error but a `MessageRefused`, and opened anew: it need not
reconnect by itself. A plugin's publisher (entry points `inboxd.publishers`) keeps the same
contract.
*See:* `events/relays/`, which publishes; `inbound/messages/`, which consumes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias


class OutgoingMessage(NamedTuple):
    """A message to publish.

    to: the Kafka topic, the RabbitMQ routing key, or the NATS subject. exchange: of RabbitMQ. key:
    messages with one key are published in order; None: in any order. id: the event's uuid. Several
    relays may publish one event, and its copies have one id: only the same id with the same `to` is
    a repetition. attributes: of CloudEvents, without a prefix. headers: the event's own, and
    traceparent.
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
    """The body, and None; of a body of more than `most` bytes: nothing, and its size and hash."""
    if len(body) <= most:
        return body, None
    return b"", LeftOutBody(len(body), hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """A consumed message.

    stream: the stream that counts its position: "TOPIC/PARTITION" of Kafka, or the name of a NATS
    stream, a RabbitMQ stream or queue. position: its offset (Kafka, RabbitMQ stream) or sequence
    (NATS); None: a RabbitMQ queue has no positions. identity: tells a stream from another one of
    the same name; "": not known; the part behind a space belongs to the message, and of a RabbitMQ
    stream all of it does. sent_to: the Kafka topic, NATS subject or RabbitMQ routing key. headers:
    names in lower case; values that are not UTF-8 are decoded as Latin-1. id: from the broker's own
    field for ids. sent_at: seconds since the epoch. token: with which the consumer acknowledges it.
    left_out: describes a body that was not kept; then `body` is empty.
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
    """How far a stream was stored: the position of its last stored message, and its identity."""

    position: int
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStream:
    """The state of a stream at its broker, looked up without consuming.

    stream: as in its messages. oldest, end: the positions of its first and its last message; None:
    the broker has no positions. waiting: the number of messages behind the stored position; None:
    not known. lost: why reading cannot continue from the stored position; "": it can. latest: the
    last messages up to the stored position, at most as many as were asked for, and only those that
    the broker still has.
    """

    stream: str
    oldest: int | None
    end: int | None
    waiting: int | None
    lost: str = ""
    latest: Sequence[IncomingMessage] = ()


# Called with a message's index in the page and its result: None if it is confirmed, else why it was
# refused (MessageRefused).
Tell: TypeAlias = Callable[[int, Exception | None], None]


# Opens a stream for this reader, which shuts out any other, and returns the stored position; None:
# begin with the oldest message. Called with the stream and, where its broker has positions, its
# last position now: if nothing was stored yet and the source begins with the newest message, that
# position counts as stored. A position without an identity was set by an operator and is taken as
# it is.
Stored: TypeAlias = Callable[..., Awaitable[StreamPosition | None]]


class Publisher(Protocol):
    """A connection to a broker, through which messages are published."""

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        """Publish messages in the order given, and wait until each is confirmed or refused.

        Calls `tell` for each message as soon as its result is known. Raises BrokerUnavailable if
        the broker was lost: messages without a result may or may not be published. It has no time
        limit of its own. When it is cancelled, nothing more may be sent: `close` follows.
        """

    async def close(self) -> None:
        """Close the connection at once, and send nothing more. Does not raise."""


class Consumer(Protocol):
    """A connection to a broker, from which messages are consumed. Its factory is given a `Stored`.

    It reads a stream from behind the stored position, or from the oldest message. Opening and
    receiving raise StreamLost if the broker no longer has the messages behind the stored position,
    or has another stream of that name; BrokerUnavailable for a temporary failure. It keeps no body
    that is larger than the source's `max_body`.
    """

    async def receive(self, most: int, within: float) -> Sequence[IncomingMessage]:
        """The next messages, at most `most`, in order within each stream; none if none came.

        within: seconds to wait for the first. The number of other messages it holds is bounded.
        """

    async def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        """Acknowledge messages as stored: of each stream in order, and without a gap."""

    async def lag(self) -> int | None:
        """The number of messages at the broker that were not received; None: not known."""

    async def close(self) -> None:
        """Close the connection; the broker gets back unacknowledged messages. Does not raise."""
