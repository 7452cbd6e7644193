"""Looks up a queue or a stream, without consuming; a queue has a count and no positions."""

from collections.abc import Mapping, Sequence
from typing import cast

from pamqp import commands

from inboxd.brokers.contract import IncomingMessage, SeenStream, StreamPosition
from inboxd.brokers.rabbitmq import amqp
from inboxd.brokers.rabbitmq.connection import AmqpClosed
from inboxd.brokers.rabbitmq.servers import connect
from inboxd.brokers.rabbitmq.stream import FollowedRabbitMQStream
from inboxd.errors import BrokerUnavailable, StreamLost
from inboxd.settings import Broker, MessageSource


async def look_at_streams(
    name: str,
    broker: Broker,
    source: str,
    settings: MessageSource,
    stored: Mapping[str, StreamPosition],
    most: int,
) -> Sequence[SeenStream]:
    """The queue or stream of a source (`kinds.look_of`). Raises BrokerUnavailable."""
    if settings.rabbitmq_stream is not None:
        followed = FollowedRabbitMQStream(name, broker, source, settings)
        return [await _stream(followed, stored.get(followed.name), most)]
    return [await _queue(name, broker, source, settings)]


async def _queue(name: str, broker: Broker, source: str, settings: MessageSource) -> SeenStream:
    queue = settings.rabbitmq_queue or ""
    connection = await connect(name, broker, f"inboxd, look at source {source}")
    try:
        answer = await connection.call(amqp.declared_passively(queue))
    except AmqpClosed as closed:
        raise connection.unavailable(
            f"does not allow us to look at queue {queue!r} ({closed.text}): declare it, or correct "
            f"rabbitmq_queue of [inbound.messages.{source}]"
        ) from closed
    finally:
        await connection.close()
    waiting = cast("commands.Queue.DeclareOk", answer).message_count
    return SeenStream(stream=queue, oldest=None, end=None, waiting=waiting)


async def _stream(
    followed: FollowedRabbitMQStream, at: StreamPosition | None, most: int
) -> SeenStream:
    lost = ""
    if at is not None:
        try:
            (await followed.resumed(at)).abort()
        except StreamLost as error:
            lost = str(error)
    try:
        oldest, newest = await followed.oldest(), await followed.newest()
    except BrokerUnavailable:
        if not lost:
            raise
        return SeenStream(stream=followed.name, oldest=None, end=None, waiting=None, lost=lost)
    begin = 0 if oldest is None else oldest
    end = begin - 1 if newest is None or newest.position is None else newest.position
    latest: Sequence[IncomingMessage] = ()
    if at is not None and at.identity and not lost:  # else an operator set the position
        first = max(begin, at.position - most + 1)
        latest = await followed.between(first, at.position) if first <= at.position else ()
    return SeenStream(
        stream=followed.name,
        oldest=begin,
        end=end,
        waiting=max(0, end - max(begin - 1, -1 if at is None else at.position)),
        lost=lost,
        latest=latest,
    )
