"""The publisher: messages out, each confirmed by RabbitMQ or refused.

Owns which confirmation is whose. Promises, beside `contract`:

- each message is persistent and mandatory: what no queue takes is refused, not lost;
- what AMQP has no room for is refused before anything of it is sent, and the rest goes on (R4.14);
- a message for which RabbitMQ closes the channel is refused alone: the channel is opened again,
  and what was not confirmed is published once more, so some of it may be there twice. Which one it
  is, is found by halving: RabbitMQ says it in words alone, which are not its protocol. What is as
  wrong as that one, by its exchange, is refused with it; what is as large is published alone.

Confirmations count the deliveries of their channel. A message that comes back has no number, but
those come back in the order in which they were sent, each before its confirmation.
"""

from __future__ import annotations

import asyncio
import math
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
_TOO_LARGE, _FORBIDDEN, _NOT_THERE, _PRECONDITION = 311, 403, 404, 406
# What RabbitMQ closes a channel with for the sake of a message: its exchange, or what it has.
_TO_BLAME = (_TOO_LARGE, _FORBIDDEN, _NOT_THERE, _PRECONDITION)
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
        self._suspicious = math.inf  # bytes: bodies of so many may be what RabbitMQ refused before
        self._suspect = False  # whether one of these is published now, by itself
        self._returned: tuple[str, str, str] | None = None

    async def prepare(self) -> None:
        """Have a channel that is new confirm what is published on it."""
        self._last = 0
        await self._connection.call(commands.Confirm.Select())

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        """See `Publisher`; a message that closes the channel takes none of the others with it."""
        page = Published(messages, tell)
        most = len(messages)
        try:
            while page.left:
                try:
                    await self._publish(page, most)
                    most *= 2
                    if self._suspect:
                        self._suspicious = math.inf  # it was not the size
                except AmqpClosed as closed:
                    most = self._halve(closed, page)
                    await self._connection.open_channel()
                    await self.prepare()
        except BaseException:
            self._connection.abort()  # nothing may be sent later
            raise

    async def close(self) -> None:
        """See `Publisher`."""
        await self._connection.close()

    async def _publish(self, page: Published, most: int) -> None:
        """Publish the first of what is left of it, and wait until they are told."""
        page.begin(self._last + 1)
        self._page = page
        pieces, size = [], 0
        for place, written in self._written(page, most):
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
        if page.awaited:
            page.whole = self._connection.promise()
            await page.whole

    def _written(self, page: Published, most: int) -> Iterator[tuple[int, bytes]]:
        """The first of what is left, as it is sent; what cannot be is refused."""
        now, frame_max = amqp.stamp(time.time()), self._connection.frame_max
        self._suspect = False
        for place in page.places()[:most]:
            message = page.messages[place]
            is_suspect = len(message.body) >= self._suspicious
            if is_suspect and page.any_sent:
                return
            try:
                written = amqp.published(message, now, frame_max)
            except MessageRefused as refusal:
                page.tell(place, refusal)
                continue
            yield place, written
            if is_suspect:
                self._suspect = True
                return

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

    def _halve(self, closed: AmqpClosed, page: Published) -> int:
        """How many are published next; one that was alone is refused, and those like it.

        Raises BrokerUnavailable for what no message can be to blame for.
        """
        if closed.code not in _TO_BLAME or not page.awaited:
            raise self._connection.unavailable(f"closed the channel ({closed.text})") from closed
        if page.awaited > 1:
            return page.awaited // 2
        (alone,) = page.unconfirmed()
        message = page.messages[alone]
        refusal = _refusal(closed, message)
        if refusal.for_good:
            self._suspicious = min(self._suspicious, len(message.body))
        page.tell(alone, refusal)
        for place in page.places():
            if _is_like(page.messages[place], message, closed.code):
                page.tell(place, refusal)
        return 1


def _is_like(other: OutgoingMessage, message: OutgoingMessage, code: int) -> bool:
    """Whether what RabbitMQ has against a message, it has against another one."""
    if other.exchange != message.exchange:
        return False
    return code == _NOT_THERE or (code == _FORBIDDEN and other.to == message.to)


def _refusal(closed: AmqpClosed, message: OutgoingMessage) -> MessageRefused:
    if closed.code in (_FORBIDDEN, _NOT_THERE):
        remedy = (
            "create the exchange, let the user write to it, or correct `exchange` of the relay."
        )
        return MessageRefused(
            f"RabbitMQ does not take it ({closed.text}): {remedy}",
            unroutable=closed.code == _NOT_THERE,
        )
    return MessageRefused(
        f"RabbitMQ does not take it, whose body has {len(message.body)} bytes ({closed.text}): if "
        "that is too much, raise max_message_size, or let what emits the event send less.",
        for_good=True,
    )


class Published:
    """The messages of one call: which of them were told, and which delivery was which of them."""

    def __init__(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        self.messages = messages
        self.left = len(messages)  # how many were not told
        self.awaited = 0  # how many of those that were sent were not told
        self.whole: asyncio.Future[None] | None = None  # done when none is awaited
        self._tell = tell
        self._told = bytearray(len(messages))
        self.begin(1)

    def begin(self, first: int) -> None:
        """Its deliveries begin with this number, on a new channel perhaps."""
        self._first = first
        self.awaited = 0
        self._out = bytearray(len(self.messages))  # 1: it was sent, and not told
        self._sent: list[int] = []  # the place of each delivery's message
        self._refused: dict[int, MessageRefused] = {}  # by delivery: the confirmation comes still
        self._confirmed = self._looked = 0  # up to which delivery

    @property
    def any_sent(self) -> bool:
        """Whether a delivery has begun since `begin`."""
        return bool(self._sent)

    def places(self) -> list[int]:
        """Where those stand that were not told."""
        return [place for place, told in enumerate(self._told) if not told]

    def unconfirmed(self) -> list[int]:
        """Where those stand that were sent and not told."""
        return [place for place in self._sent if self._out[place]]

    def sent(self, place: int) -> None:
        """The next delivery is this message."""
        self._sent.append(place)
        self._out[place] = 1
        self.awaited += 1

    def tell(self, place: int, refusal: MessageRefused | None) -> None:
        """Tell what became of a message, once."""
        if self._told[place]:
            return
        self._told[place] = 1
        self.left -= 1
        self._tell(place, refusal)
        self.awaited -= self._out[place]
        self._out[place] = 0
        if not self.awaited and self.whole is not None and not self.whole.done():
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
