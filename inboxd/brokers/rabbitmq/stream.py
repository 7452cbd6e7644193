"""Consumes a RabbitMQ stream (`x-queue-type: stream`) over AMQP 0.9.1, from its stored position on.

RabbitMQ accepts any offset and continues at a possible one, and AMQP gives a stream no identity. So
reading begins *with* the last stored message, which must be there with the same fingerprint, and is
not handed over. StreamLost is raised if RabbitMQ removed messages behind the stored position, also
while it is read, or if the stream was made anew or ends before the position.
Known limits: offsets have gaps at RabbitMQ's own records, so the lag is not known; a single reader
is ensured by the source's lease, not by RabbitMQ; if a stream lost exactly the messages up to the
position, nothing shows whether it is the same stream; "newest" is the last message that came until
shortly after the look-up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio
from pamqp import commands

from inboxd.brokers.contract import IncomingMessage, Stored, StreamPosition
from inboxd.brokers.rabbitmq import amqp
from inboxd.brokers.rabbitmq.connection import AmqpClosed, AmqpConnection
from inboxd.brokers.rabbitmq.consumer import RabbitMQConsumer
from inboxd.brokers.rabbitmq.servers import connect
from inboxd.errors import BrokerUnavailable, StreamLost
from inboxd.settings import Broker, MessageSource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_TAG = "inboxd"
_OFFSET = "x-stream-offset"
_MOST_PREFETCHED = 65_535  # AMQP's limit: two bytes
_NOT_THERE, _PRECONDITION = 404, 406
# Search for a stream's end: messages per request, and seconds without a message that mean the end.
_LOOKED_AT, _QUIET = 1000, 0.25
_NOTHING_YET: Final = -1


async def open_consumer(
    name: str, broker: Broker, source: str, settings: MessageSource, stored: Stored
) -> RabbitMQStreamConsumer:
    """Continue a stream. Raises BrokerUnavailable or StreamLost."""
    followed = FollowedRabbitMQStream(name, broker, source, settings)
    at = await stored(followed.name)
    if at is None:
        newest = await followed.newest()
        end = StreamPosition(_NOTHING_YET, "nothing")
        if newest is not None and newest.position is not None:
            end = StreamPosition(newest.position, newest.identity)
        at = await stored(followed.name, end)
    return await followed.resumed(at)


class FollowedRabbitMQStream:
    """A stream, and the source that follows it; each look-up uses a new connection."""

    def __init__(
        self, broker_name: str, broker: Broker, source: str, settings: MessageSource
    ) -> None:
        self.name = settings.rabbitmq_stream or ""
        self._broker_name = broker_name
        self._broker = broker
        self._source = source
        self._max_body = settings.max_body
        self._prefetch = min(settings.prefetch, _MOST_PREFETCHED)
        self._patience = broker.connect_timeout.total_seconds()

    async def resumed(self, at: StreamPosition | None) -> RabbitMQStreamConsumer:
        """A consumer of all messages behind a position; None: of all. Raises StreamLost."""
        consumer = await self._connected()
        try:
            await self._check_there(consumer, at)
            await consumer.begin_at(_beginning(at), self._prefetch)
            if at is not None and at.identity:
                consumer.handed = at.position
                await self._check_last(consumer, at)
        except BaseException:
            consumer.abort()
            raise
        return consumer

    async def oldest(self) -> int | None:
        """The position of its first message; None: it is empty. Raises BrokerUnavailable."""
        consumer = await self._connected()
        try:
            await consumer.begin_at("first", 1)
            page = await consumer.receive(1, self._patience)
        finally:
            consumer.abort()
        return page[0].position if page else None

    async def newest(self) -> IncomingMessage | None:
        """Its last message; None: it is empty. Raises BrokerUnavailable."""
        consumer, found, within = await self._connected(), None, self._patience
        try:
            await consumer.begin_at("last", _LOOKED_AT)
            with anyio.move_on_after(2 * self._patience):  # new messages may keep coming
                while page := await consumer.receive(_LOOKED_AT, within):
                    await consumer.acknowledge(page)
                    found, within = page[-1], _QUIET
        finally:
            consumer.abort()
        return found

    async def between(self, first: int, last: int) -> list[IncomingMessage]:
        """The messages between two positions that arrive in time."""
        consumer = await self._connected()
        found: list[IncomingMessage] = []
        try:
            await consumer.begin_at(first, min(self._prefetch, last - first + 1))
            while not found or (found[-1].position or 0) < last:
                page = await consumer.receive(last - first + 1, self._patience)
                if not page:
                    break
                await consumer.acknowledge(page)
                found += page
        finally:
            consumer.abort()
        return [each for each in found if each.position is not None and each.position <= last]

    def lost(self, at: int, why: str) -> StreamLost:
        return StreamLost(
            f"source {self._source!r}, stream {self.name} of broker {self._broker_name!r}: "
            f"position {at} is stored, and {why}. Set where to continue: inboxd messages reset "
            f"{self._source} {self.name} --to oldest|newest|POSITION."
        )

    async def _connected(self) -> RabbitMQStreamConsumer:
        role = f"inboxd, source {self._source}"
        connection = await connect(self._broker_name, self._broker, role)
        return RabbitMQStreamConsumer(
            connection, self.name, self._source, self._max_body, self._check_jump
        )

    async def _check_there(
        self, consumer: RabbitMQStreamConsumer, at: StreamPosition | None
    ) -> None:
        if at is not None and not await consumer.is_there():
            raise self.lost(at.position, "the stream does not exist")

    async def _check_last(self, consumer: RabbitMQStreamConsumer, at: StreamPosition) -> None:
        """Check that the last stored message is where it was. Raises StreamLost."""
        if at.position == _NOTHING_YET:
            return  # the first message is checked for a gap
        page = await consumer.receive(1, self._patience, checks=False)
        if not page:
            newest = await self.newest()
            if newest is None or (newest.position or 0) < at.position:
                end = "is empty" if newest is None else f"ends at {newest.position}"
                raise self.lost(at.position, f"it {end}: it was made anew, or is from a backup")
            raise consumer.silent(at.position)
        (message,) = page
        if message.position == at.position:
            if message.identity != at.identity:
                raise self.lost(
                    at.position, "the message there is another one: the stream was made anew"
                )
            await consumer.acknowledge(page)
        elif message.position == at.position + 1:
            consumer.put_back(message)
        else:
            raise self._removed(at.position, message.position)

    async def _check_jump(self, handed: int) -> None:
        """Raise StreamLost if messages behind `handed` were removed."""
        oldest = await self.oldest()
        if oldest is None or oldest > handed + 1:
            raise self._removed(handed, oldest)

    def _removed(self, at: int, oldest: int | None) -> StreamLost:
        begins = "it is empty now" if oldest is None else f"it begins at {oldest} now"
        return self.lost(at, f"{begins}: what followed was removed (retention)")


class RabbitMQStreamConsumer(RabbitMQConsumer):
    setting = "rabbitmq_stream"

    def __init__(
        self,
        connection: AmqpConnection,
        queue: str,
        source: str,
        max_body: int,
        check_jump: Callable[[int], Awaitable[None]],
    ) -> None:
        """check_jump: raises StreamLost if messages behind a position are gone."""
        super().__init__(connection, queue, source, max_body)
        self.handed: int | None = None
        """The position of the last message that was handed over, or stored before."""
        self._check_jump = check_jump
        self._is_a_queue = False

    async def is_there(self) -> bool:
        """Whether a stream or queue of this name exists. Raises BrokerUnavailable."""
        with self._explained():
            try:
                await self._declare()
            except AmqpClosed as closed:
                if closed.code != _NOT_THERE:
                    raise
                return False
        return True

    async def begin_at(self, offset: int | str, prefetch: int) -> None:
        """Start the delivery at an offset. Raises BrokerUnavailable."""
        with self._explained():
            await self._connection.call(commands.Basic.Qos(prefetch_count=prefetch))
            try:
                await self._connection.call(amqp.consumed(self._queue, _TAG, offset=offset))
            except AmqpClosed as closed:
                if closed.code != _PRECONDITION:
                    raise
                raise self._is_no_stream("takes no offset for") from closed

    async def receive(
        self, most: int, within: float, *, checks: bool = True
    ) -> Sequence[IncomingMessage]:
        """See `Consumer`; checks: raise StreamLost if messages before the page are missing."""
        page = await super().receive(most, within)
        if self._is_a_queue:
            raise self._is_no_stream("delivers messages without offsets of")
        if not page or not checks:
            return page
        last = page[-1].position or 0
        if self.handed is not None and last - self.handed != len(page):
            await self._check_jump(self.handed)
        self.handed = last
        return page

    async def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        """Make room for the same number of further messages; nothing is stored."""
        if messages and isinstance(tag := messages[-1].token, int):
            with self._explained():
                self._connection.send(amqp.acknowledged(tag, multiple=True))

    async def lag(self) -> None:
        """Not known: offsets have gaps."""

    def put_back(self, message: IncomingMessage) -> None:
        self._held.appendleft(message)

    def _is_no_stream(self, does: str) -> BrokerUnavailable:
        return self._connection.unavailable(
            f"{does} {self._queue!r}, so it is not a stream: name it by rabbitmq_queue in "
            f"{self._where}, not by rabbitmq_stream"
        )

    def silent(self, position: int) -> Exception:
        return self._connection.unavailable(
            f"did not hand over position {position} of {self._queue!r} in time"
        )

    def abort(self) -> None:
        self._connection.abort()

    def _complete(self) -> None:
        super()._complete()
        message = self._held.pop()
        offset = message.headers.get(_OFFSET, "")
        if not offset.isdecimal():
            self._is_a_queue = True
            return
        self._held.append(replace(message, position=int(offset), identity=_fingerprint(message)))


def _beginning(at: StreamPosition | None) -> int | str:
    """Begin with the last stored message, or behind it if an operator set the position."""
    if at is None or at.position == _NOTHING_YET:
        return "first"
    return at.position if at.identity else at.position + 1


def _fingerprint(message: IncomingMessage) -> str:
    """A message's identity: equal at each delivery, and different for another message."""
    content = message.body if message.left_out is None else message.left_out.sha256.encode()
    found = hashlib.sha256(f"{message.id}\0{message.sent_at}\0".encode())
    found.update(content)
    return found.hexdigest()[:32]
