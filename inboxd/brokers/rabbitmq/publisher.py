"""Publishes messages; RabbitMQ confirms or refuses each.

- Each message is persistent and mandatory: a message that no queue takes is refused, not lost.
- A message that does not fit AMQP is refused before any of it is sent, and the other messages are
published (R4.14).
- If RabbitMQ closes the channel for a message, halving finds and refuses it, since RabbitMQ names
it only in words; messages with the same wrong exchange are refused with it. Unconfirmed messages
are published once more, so some of them may exist twice.

A returned message has no number, but returns come in the order of sending, each before the
message's confirmation.
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
from inboxd.model.splitting import PageSize
from inboxd.settings import Broker

_PIECE = 64 * 1024  # bytes that are sent at once
_TOO_LARGE, _FORBIDDEN, _NOT_THERE, _PRECONDITION = 311, 403, 404, 406
# Codes with which RabbitMQ closes a channel because of a message: its exchange, or its content.
_TO_BLAME = (_TOO_LARGE, _FORBIDDEN, _NOT_THERE, _PRECONDITION)
_NACKED = (
    "RabbitMQ could not take it: a queue that it goes to is full (overflow: reject-publish), or "
    "has failed. Check the queues of its exchange."
)


async def open_publisher(name: str, broker: Broker) -> RabbitMQPublisher:
    connection = await connect(name, broker, "inboxd, publisher")
    publisher = RabbitMQPublisher(connection)
    try:
        await publisher.prepare()
    except BaseException:
        connection.abort()
        raise
    return publisher


class RabbitMQPublisher:
    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        connection.take = self._take
        self._page = Published((), lambda _place, _refusal: None)
        self._last = 0  # number of the last delivery on this channel
        self._suspicious = math.inf  # bytes; RabbitMQ may refuse bodies of this size or more
        self._suspect = False  # whether such a body is being published, alone
        self._returned: tuple[str, str, str] | None = None

    async def prepare(self) -> None:
        self._last = 0
        await self._connection.call(commands.Confirm.Select())

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        page = Published(messages, tell)
        size = PageSize(len(messages), len(messages))
        try:
            while page.left:
                try:
                    await self._publish(page, size.now)
                    size.went_well()
                    if self._suspect:
                        self._suspicious = math.inf  # its size was not the reason
                except AmqpClosed as closed:
                    size.failed(page.awaited)
                    self._sort_out(closed, page)
                    await self._connection.open_channel()
                    await self.prepare()
        except BaseException:
            self._connection.abort()  # nothing may be sent later
            raise

    async def close(self) -> None:
        await self._connection.close()

    async def _publish(self, page: Published, most: int) -> None:
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

    # ------------------------------------------------------------------ receiving

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

    # ------------------------------------------------------------------ after a closed channel

    def _sort_out(self, closed: AmqpClosed, page: Published) -> None:
        """Refuse a message that was alone. Raises BrokerUnavailable if no message is the reason."""
        if closed.code not in _TO_BLAME or not page.awaited:
            raise self._connection.unavailable(f"closed the channel ({closed.text})") from closed
        if page.awaited > 1:
            return
        (alone,) = page.unconfirmed()
        message = page.messages[alone]
        refusal = _refusal(closed, message)
        if refusal.for_good:
            self._suspicious = min(self._suspicious, len(message.body))
        page.tell(alone, refusal)
        for place in page.places():
            if _is_like(page.messages[place], message, closed.code):
                page.tell(place, refusal)


def _is_like(other: OutgoingMessage, message: OutgoingMessage, code: int) -> bool:
    """Whether the reason for refusing `message` applies to `other`, too."""
    if other.exchange != message.exchange:
        return False
    return code == _NOT_THERE or (code == _FORBIDDEN and other.to == message.to)


def _refusal(closed: AmqpClosed, message: OutgoingMessage) -> MessageRefused:
    if closed.code in (_FORBIDDEN, _NOT_THERE):
        remedy = (
            "create the exchange, let the user write to it, or correct `exchange` of the relay."
        )
        return MessageRefused(
            f"RabbitMQ refuses it ({closed.text}): {remedy}",
            unroutable=closed.code == _NOT_THERE,
        )
    return MessageRefused(
        f"RabbitMQ refuses it ({closed.text}); its body has {len(message.body)} bytes: if that is "
        "too much, raise max_message_size, or emit smaller events.",
        for_good=True,
    )


class Published:
    def __init__(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        self.messages = messages
        self.left = len(messages)  # number without a result
        self.awaited = 0  # number of sent ones without a result
        self.whole: asyncio.Future[None] | None = None  # done when no result is awaited
        self._tell = tell
        self._told = bytearray(len(messages))
        self.begin(1)

    def begin(self, first: int) -> None:
        """Note that deliveries begin with this number, perhaps on a new channel."""
        self._first = first
        self.awaited = 0
        self._out = bytearray(len(self.messages))  # 1: sent, without a result
        self._sent: list[int] = []  # index of each delivery's message
        self._refused: dict[int, MessageRefused] = {}  # by delivery; not confirmed yet
        self._confirmed = self._looked = 0  # all deliveries up to this one are

    @property
    def any_sent(self) -> bool:
        return bool(self._sent)

    def places(self) -> list[int]:
        return [place for place, told in enumerate(self._told) if not told]

    def unconfirmed(self) -> list[int]:
        return [place for place in self._sent if self._out[place]]

    def sent(self, place: int) -> None:
        self._sent.append(place)
        self._out[place] = 1
        self.awaited += 1

    def tell(self, place: int, refusal: MessageRefused | None) -> None:
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
        """Handle a confirmation; multiple: also for unconfirmed deliveries before it."""
        stop = number - self._first + 1
        start = self._confirmed if multiple else stop - 1
        for delivery in range(max(start, 0), min(stop, len(self._sent))):
            self.tell(self._sent[delivery], self._refused.pop(delivery, refusal))
        if multiple:
            self._confirmed = stop

    def refuse(self, id: str, to: str, refusal: MessageRefused) -> None:
        """Refuse the next message of this id and routing key. Raises ValueError if none is left."""
        for delivery in range(self._looked, len(self._sent)):
            message = self.messages[self._sent[delivery]]
            if message.id == id and message.to == to:
                self._refused[delivery] = refusal
                self._looked = delivery + 1
                return
        raise ValueError(id)
