"""Consumes the messages of one queue, and acknowledges them when they are stored.

Promises, beside `contract`: no other consumer reads the queue at the same time, so it is read in
order. RabbitMQ ensures this for a classic queue (`exclusive`), and by `x-single-active-consumer`;
at a quorum queue without that argument, a reader that finds another consumer gives way. Known
limits: an unacknowledged message comes again when the connection ends, perhaps behind others;
RabbitMQ counts no bytes (`prefetch_size`); queues of the type `stream` are refused.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, cast

import anyio
from pamqp import commands

from inboxd.brokers.contract import IncomingMessage, LeftOutBody, Stored
from inboxd.brokers.rabbitmq import amqp, incoming
from inboxd.brokers.rabbitmq.connection import AmqpClosed, AmqpConnection
from inboxd.brokers.rabbitmq.servers import connect
from inboxd.errors import BrokerUnavailable, StreamLost
from inboxd.settings import Broker, MessageSource

_TAG = "inboxd"
_MOST_PREFETCHED = 65_535  # AMQP's limit: two bytes
_FORBIDDEN, _NOT_THERE, _LOCKED, _PRECONDITION = 403, 404, 405, 406


async def open_consumer(
    name: str, broker: Broker, source: str, settings: MessageSource, stored: Stored
) -> RabbitMQConsumer:
    """Connect as the only consumer of the source's queue. Raises BrokerUnavailable."""
    del stored  # a queue has no positions: RabbitMQ remembers acknowledgements
    connection = await connect(name, broker, f"inboxd, source {source}")
    queue = settings.rabbitmq_queue or ""
    consumer = RabbitMQConsumer(connection, queue, source, settings.max_body)
    try:
        await consumer.begin(min(settings.prefetch, _MOST_PREFETCHED))
    except BaseException:
        connection.abort()
        raise
    return consumer


class RabbitMQConsumer:
    setting = "rabbitmq_queue"
    """The setting in which the source names it."""

    def __init__(self, connection: AmqpConnection, queue: str, source: str, max_body: int) -> None:
        self._connection, self._queue, self._source = connection, queue, source
        self._max_body = max_body
        connection.take = self._take
        self._held = deque[IncomingMessage]()
        self._came: asyncio.Future[None] | None = None  # done when a message has come
        self._cancelled = False
        self._acknowledged = 0  # all deliveries up to this one are acknowledged
        # The message whose frames are coming.
        self._delivery = (0, False, "")
        self._properties = incoming.AmqpProperties()
        self._parts: list[bytes] = []
        self._size = self._missing = 0
        self._hash: hashlib._Hash | None = None
        """Hashes a body that is not kept."""

    async def begin(self, prefetch: int) -> None:
        """Become the only consumer. Raises BrokerUnavailable."""
        with self._explained():
            if await self._consumers():
                raise self._in_use()
            try:
                await self._consume(prefetch, exclusive=True)
            except AmqpClosed as closed:
                if closed.code != _FORBIDDEN:
                    raise
                # Three causes have this code: RabbitMQ allows one active consumer on this queue;
                # another consumer was faster; the user is not allowed to read the queue.
                await self._consume_beside(prefetch)
            consumers = await self._consumers()
        if consumers > 1:
            raise self._in_use()
        if not consumers:
            raise self._connection.unavailable(
                f"does not count us as a consumer of queue {self._queue!r}: if that is a stream, "
                f"name it by rabbitmq_stream in {self._where}, not by rabbitmq_queue"
            )

    async def receive(self, most: int, within: float) -> Sequence[IncomingMessage]:
        with self._explained():
            self._connection.check()
            if not self._held and not self._cancelled:
                self._came = self._connection.promise()
                with anyio.move_on_after(within):
                    await self._came
            if self._cancelled:
                await self._gone()
        return [self._held.popleft() for _ in range(min(most, len(self._held)))]

    async def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        """Acknowledge all at once, or one by one if deliveries between them are not included."""
        if not messages:
            return
        tags = [cast("int", message.token) for message in messages]
        if tags[-1] - self._acknowledged == len(tags):
            self._acknowledged = tags[-1]
            written = amqp.acknowledged(tags[-1], multiple=True)
        else:
            written = b"".join(amqp.acknowledged(tag, multiple=False) for tag in tags)
        with self._explained():
            self._connection.send(written)

    async def lag(self) -> int | None:
        """The number of ready messages in the queue, without the messages held here."""
        with self._explained():
            return (await self._declare()).message_count

    async def close(self) -> None:
        await self._connection.close()

    # ------------------------------------------------------------------ requests

    async def _consume(self, prefetch: int, *, exclusive: bool) -> None:
        await self._connection.call(commands.Basic.Qos(prefetch_count=prefetch))
        await self._connection.call(amqp.consumed(self._queue, _TAG, exclusive=exclusive))

    async def _consume_beside(self, prefetch: int) -> None:
        """Raises BrokerUnavailable if another consumer has the queue."""
        await self._connection.open_channel()
        try:
            await self._consume(prefetch, exclusive=False)
        except AmqpClosed as closed:
            if closed.code != _FORBIDDEN:
                raise
            await self._connection.open_channel()
            if await self._consumers():
                raise self._in_use() from closed
            raise

    async def _declare(self) -> commands.Queue.DeclareOk:
        declared = await self._connection.call(amqp.declared_passively(self._queue))
        return cast("commands.Queue.DeclareOk", declared)

    async def _consumers(self) -> int:
        return (await self._declare()).consumer_count or 0

    async def _gone(self) -> NoReturn:
        try:
            await self._declare()
        except AmqpClosed as closed:
            if closed.code != _NOT_THERE:
                raise
            raise StreamLost(
                f"queue {self._queue!r} was deleted, and with it what was not acknowledged: "
                f"declare it again, or correct {self.setting} of {self._where}."
            ) from closed
        raise self._connection.unavailable(
            f"has ended our consumption of queue {self._queue!r}: its node stops, or it moves"
        )

    # ------------------------------------------------------------------ receiving

    def _take(self, kind: int, index: int, payload: bytes) -> None:
        if kind == amqp.BODY:
            if self._hash is None:
                self._parts.append(payload)
            else:
                self._hash.update(payload)
            self._missing -= len(payload)
        elif kind == amqp.HEADER:
            self._size, self._properties = incoming.content(payload)
            self._parts, self._missing = [], self._size
            self._hash = None if self._size <= self._max_body else hashlib.sha256()
        elif index == commands.Basic.Deliver.index:
            self._delivery = incoming.delivery(payload)
            return
        elif index == commands.Basic.Cancel.index:
            self._cancelled = True
            self._wake()
            return
        if self._missing <= 0:
            self._complete()

    def _complete(self) -> None:
        tag, redelivered, routing_key = self._delivery
        headers = self._properties.headers
        parts, hash_ = self._parts, self._hash
        self._held.append(
            IncomingMessage(
                stream=self._queue,
                position=None,
                body=parts[0] if len(parts) == 1 else b"".join(parts),
                sent_to=routing_key,
                content_type=headers.get("content-type"),
                headers=headers,
                id=headers.get("message-id"),
                sent_at=self._properties.time,
                redelivered=redelivered,
                token=tag,
                left_out=None if hash_ is None else LeftOutBody(self._size, hash_.hexdigest()),
            )
        )
        self._wake()

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    # ------------------------------------------------------------------ errors

    @property
    def _where(self) -> str:
        return f"[inbound.messages.{self._source}]"

    def _in_use(self) -> BrokerUnavailable:
        return self._connection.unavailable(
            f"has another consumer of queue {self._queue!r}, and only a single consumer keeps its "
            "order: stop that one, unless it is another worker of this inbox"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except AmqpClosed as closed:
            raise self._closed(closed) from closed

    def _closed(self, closed: AmqpClosed) -> BrokerUnavailable:
        if closed.code == _LOCKED:  # the queue is exclusive to another connection
            return self._in_use()
        if closed.code == _NOT_THERE:
            return self._connection.unavailable(
                f"has no queue {self._queue!r}: declare it, or correct {self.setting} of "
                f"{self._where}"
            )
        remedy = ""
        if closed.code == _FORBIDDEN:
            remedy = f": allow the user to read queue {self._queue!r}"
        elif closed.code == _PRECONDITION:
            remedy = f": raise RabbitMQ's consumer_timeout, or lower prefetch of {self._where}"
        return self._connection.unavailable(f"closed the channel ({closed.text}){remedy}")
