"""What a broker does for inboxd: it takes messages, and hands over those that come.

Owns the two faces, `Publisher` and `Consumer`, and what passes through them. A relay publishes
through the one, a source of messages reads from the other. Both are opened by a factory (`kinds`),
used by one task at a time, closed after any error that is not a `MessageRefused`, and opened again:
so neither has to mend itself. A plugin's publisher (the entry points `inboxd.publishers`) keeps the
same contract.
*See:* `events/relays/`, which publishes; `inbound/messages/`, which consumes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias


class OutgoingMessage(NamedTuple):
    """A message that is to be published.

    to: the Kafka topic, the RabbitMQ routing key, or the NATS subject. exchange: of RabbitMQ. key:
    what is published in order has one key; None: nothing is. id: the event's uuid; the copies of an
    event that several relays publish have the same, so a repetition has the same id and `to`.
    attributes: of CloudEvents, without a prefix; headers: the event's own, and traceparent, as they
    are named.
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
    """What is known of a body that is larger than the source's `max_body`: it is not kept."""

    size: int
    sha256: str


def kept(body: bytes, most: int) -> tuple[bytes, LeftOutBody | None]:
    """A body as it is; of one of more than `most` bytes nothing, and what it was."""
    if len(body) <= most:
        return body, None
    return b"", LeftOutBody(len(body), hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """A message that came.

    stream: where its position counts: "TOPIC/PARTITION" of Kafka, the name of a NATS stream, of a
    RabbitMQ queue. position: its Kafka offset, or its sequence in the NATS stream; None: its broker
    has none. identity: of the stream, for as long as it is the same one; "": not known; what a
    consumer puts behind a space is of the message; of a RabbitMQ stream all is. sent_to: Kafka
    topic, NATS subject, RabbitMQ routing key. headers: names in lower case; values that are no
    UTF-8 are decoded as Latin-1. id: that its sender gave it in the broker's own field. sent_at:
    seconds since the epoch. token: the consumer's own, by which it acknowledges. left_out: what its
    body was, if that is not kept; then `body` is empty.
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
    """Up to where a stream was stored: the position of its last message, and its identity."""

    position: int
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStream:
    """A stream as its broker has it, seen by somebody who consumes nothing.

    stream: as of its messages. oldest, end: the positions of its first message and of its last one;
    None: its broker has no positions. waiting: messages behind what is stored; None: not known.
    lost: why it cannot be gone on with from there; "": it can. latest: the last messages up to the
    stored position, as many as were asked for, less what the broker has no longer.
    """

    stream: str
    oldest: int | None
    end: int | None
    waiting: int | None
    lost: str = ""
    latest: Sequence[IncomingMessage] = ()


# Tells what became of a message, by its place in the page: None, it is confirmed; or why it was
# refused (MessageRefused).
Tell: TypeAlias = Callable[[int, Exception | None], None]


# Opens a stream for this reader, in place of any other, and tells up to where it was stored; None:
# it begins with the oldest message. Called with the stream and, where its broker has positions, the
# last position that it has now: if nothing was stored, and only what comes from then on is wanted,
# that counts as stored from then on. A position without an identity is an operator's word, and is
# taken as it is.
Stored: TypeAlias = Callable[..., Awaitable[StreamPosition | None]]


class Publisher(Protocol):
    """A connection to a broker, by which messages are published."""

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        """Publish them in the order given, and wait until each is confirmed or refused.

        Calls `tell` for each as it is known. Raises BrokerUnavailable where the broker was lost:
        what was not told then may be published, or not. It has no time limit of its own; cancelled,
        it leaves what was not told, and nothing of that may be sent later: `close` follows.
        """

    async def close(self) -> None:
        """Close the connection at once; what was not sent is not sent any more. Does not raise."""


class Consumer(Protocol):
    """A connection to a broker, from which messages are consumed. It was given a `Stored`.

    A stream is read from behind its stored position on, or from its oldest message on. Opening or
    receiving raises StreamLost where the broker has no longer what follows the stored position, or
    another stream of that name; BrokerUnavailable for what passes. It keeps no body that is larger
    than the source's `max_body`.
    """

    async def receive(self, most: int, within: float) -> Sequence[IncomingMessage]:
        """The next messages, at most `most`, of each stream in order; none: none came in time.

        within: seconds that the first one is waited for. It holds a bounded number of others.
        """

    async def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        """Say that these are stored; messages of one stream are given in order, none left out."""

    async def lag(self) -> int | None:
        """How many messages the broker has that were not received; None: not known."""

    async def close(self) -> None:
        """Close the connection; what was not acknowledged is the broker's again. Does not raise."""
