"""The publisher: messages out, each confirmed by RabbitMQ or refused.

Owns which confirmation is whose. Promises, beside `contract`:

- each message is persistent and mandatory: what no queue takes is refused, not lost;
- what AMQP has no room for is refused before anything of it is sent, and the rest goes on (R4.14);
- a message for which RabbitMQ closes the channel is refused alone: the channel is opened again,
  and what was not confirmed is published once more, so some of it may be there twice.

Confirmations count the deliveries of their channel. A message that comes back has no number, but
those come back in the order in which they were sent, each before its confirmation.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence

from anyio.lowlevel import checkpoint
from pamqp import commands

from inboxd.brokers.contract import OutgoingMessage, Tell
from inboxd.brokers.rabbitmq import amqp, incoming
from inboxd.brokers.rabbitmq.connection import AmqpClosed, AmqpConnection
from inboxd.brokers.rabbitmq.servers import connect
from inboxd.errors import MessageRefused
from inboxd.settings import Broker

_PIECE = 64 * 1024  # bytes that are sent at once
_FORBIDDEN, _NOT_THERE = 403, 404
_DEFAULT_EXCHANGE = "amq.default"  # as RabbitMQ calls it
_TOO_LARGE = re.compile(r"message size \d+ .* max size (\d+)")
_NACKED = (
    "RabbitMQ could not take it: a queue that it goes to is full (overflow: reject-publish), or "
    "has failed. See the queues of its exchange."
)


async def open_publisher(name: str, broker: Broker) -> RabbitMQPublisher:
    """A connection of its own, by which messages are published. Raises BrokerUnavailable."""
    connection = await connect(name, broker, "inboxd, publisher")
    publisher = RabbitMQPublisher(connection)
    try:
        await publisher.prepare()
    except BaseException:
        connection.abort()
        raise
    return publisher


class RabbitMQPublisher:
    """See `Publisher`."""

    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        connection.take = self._take
        self._page = Published((), lambda _place, _refusal: None)
        self._last = 0  # the number of the last delivery on this channel
        self._most: int | None = None  # bytes of a body, once RabbitMQ has said so
        self._returned: tuple[str, str, str] | None = None

    async def prepare(self) -> None:
        """Have a channel that is new confirm what is published on it."""
        self._last = 0
        await self._connection.call(commands.Confirm.Select())

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        """See `Publisher`; a message that closes the channel takes none of the others with it."""
        page = Published(messages, tell)
        try:
            while page.left:
                try:
                    await self._publish(page)
                except AmqpClosed as closed:
                    self._blame(closed, page)
                    await self._connection.open_channel()
                    await self.prepare()
        except BaseException:
            self._connection.abort()  # nothing may be sent later
            raise

    async def close(self) -> None:
        """See `Publisher`."""
        await self._connection.close()

    async def _publish(self, page: Published) -> None:
        """Publish what is left of it, and wait until none is."""
        page.begin(self._last + 1)
        self._page = page
        pieces, size = [], 0
        for place, written in self._written(page):
            self._last += 1
            page.sent(place)
            pieces.append(written)
            size += len(written)
            if size >= _PIECE:
                self._connection.send(b"".join(pieces))
                pieces, size = [], 0
                await checkpoint()
                await self._connection.writable()
        self._connection.send(b"".join(pieces))
        if page.left:
            page.whole = self._connection.promise()
            await page.whole

    def _written(self, page: Published) -> Iterator[tuple[int, bytes]]:
        """What is left, as it is sent; what cannot be is refused."""
        now, frame_max = amqp.stamp(time.time()), self._connection.frame_max
        for place in page.places():
            message = page.messages[place]
            try:
                if self._most is not None and len(message.body) > self._most:
                    raise self._too_large(message)
                yield place, amqp.published(message, now, frame_max)
            except MessageRefused as refusal:
                page.tell(place, refusal)

    # ------------------------------------------------------------------ what comes

    def _take(self, kind: int, index: int, payload: bytes) -> None:
        if index == commands.Basic.Ack.index:
            self._page.confirm(*incoming.confirmation(payload), None)
        elif index == commands.Basic.Nack.index:
            self._page.confirm(*incoming.confirmation(payload), MessageRefused(_NACKED))
        elif index == commands.Basic.Return.index:
            self._returned = incoming.returned(payload)
        elif kind == amqp.HEADER and self._returned is not None:
            text, exchange, to = self._returned
            _, properties = incoming.content(payload)
            why = (
                f"exchange {exchange!r} leads to no queue with routing key {to!r} ({text}): bind "
                "one, or correct `to` or `exchange` of the relay."
                if exchange
                else f"there is no queue {to!r} ({text}): declare it, or correct `to` or "
                "`exchange` of the relay."
            )
            refusal = MessageRefused(why, unroutable=True)
            self._page.refuse(properties.headers.get("message-id", ""), to, refusal)
            self._returned = None

    # ------------------------------------------------------------------ a closed channel

    def _blame(self, closed: AmqpClosed, page: Published) -> None:
        """Refuse what the channel was closed for. Raises BrokerUnavailable: that is not known."""
        if (size := _TOO_LARGE.search(closed.text)) is not None:
            self._most = int(size[1])
        left = page.left
        for place in page.places():
            message = page.messages[place]
            if self._most is not None and len(message.body) > self._most:
                page.tell(place, self._too_large(message))
            elif closed.code in (_FORBIDDEN, _NOT_THERE) and _names(closed.text, message):
                page.tell(
                    place,
                    MessageRefused(
                        f"RabbitMQ does not take it ({closed.text}): create the exchange, let the "
                        "user write to it, or correct `exchange` of the relay.",
                        unroutable=closed.code == _NOT_THERE,
                    ),
                )
        if page.left == left:
            raise self._connection.unavailable(f"closed the channel ({closed.text})") from closed

    def _too_large(self, message: OutgoingMessage) -> MessageRefused:
        return MessageRefused(
            f"its body has {len(message.body)} bytes, and this RabbitMQ takes at most {self._most} "
            "(max_message_size): raise that, or let what emits the event send less.",
            for_good=True,
        )


class Published:
    """The messages of one call: which of them were told, and which delivery was which of them."""

    def __init__(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        self.messages = messages
        self.left = len(messages)  # how many were not told
        self.whole: asyncio.Future[None] | None = None  # done when none is left
        self._tell = tell
        self._told = bytearray(len(messages))
        self.begin(1)

    def begin(self, first: int) -> None:
        """Its deliveries begin with this number, on a new channel perhaps."""
        self._first = first
        self._sent: list[int] = []  # the place of each delivery's message
        self._refused: dict[int, MessageRefused] = {}  # by delivery: the confirmation comes still
        self._confirmed = self._looked = 0  # up to which delivery

    def places(self) -> list[int]:
        """Where those stand that were not told."""
        return [place for place, told in enumerate(self._told) if not told]

    def sent(self, place: int) -> None:
        """The next delivery is this message."""
        self._sent.append(place)

    def tell(self, place: int, refusal: MessageRefused | None) -> None:
        """Tell what became of a message, once."""
        if self._told[place]:
            return
        self._told[place] = 1
        self.left -= 1
        self._tell(place, refusal)
        if not self.left and self.whole is not None and not self.whole.done():
            self.whole.set_result(None)

    def confirm(self, number: int, multiple: bool, refusal: MessageRefused | None) -> None:  # noqa: FBT001
        """A delivery was confirmed or refused; multiple: and all that were not, before it."""
        stop = number - self._first + 1
        start = self._confirmed if multiple else stop - 1
        for delivery in range(max(start, 0), min(stop, len(self._sent))):
            self.tell(self._sent[delivery], self._refused.pop(delivery, refusal))
        if multiple:
            self._confirmed = stop

    def refuse(self, id: str, to: str, refusal: MessageRefused) -> None:
        """The next message of this id and routing key came back. Raises ValueError: it was none."""
        for delivery in range(self._looked, len(self._sent)):
            message = self.messages[self._sent[delivery]]
            if message.id == id and message.to == to:
                self._refused[delivery] = refusal
                self._looked = delivery + 1
                return
        raise ValueError(id)


def _names(text: str, message: OutgoingMessage) -> bool:
    """Whether RabbitMQ's words are about the exchange of this message, or its routing key there."""
    if f"exchange '{message.exchange or _DEFAULT_EXCHANGE}'" not in text:
        return False
    return "topic '" not in text or f"topic '{message.to}'" in text
