"""Looks at a queue beside whoever consumes it: it has no positions, so only what waits is told."""

from collections.abc import Mapping, Sequence
from typing import cast

from pamqp import commands

from inboxd.brokers.contract import SeenStream, StreamPosition
from inboxd.brokers.rabbitmq import amqp
from inboxd.brokers.rabbitmq.connection import AmqpClosed
from inboxd.brokers.rabbitmq.servers import connect
from inboxd.settings import Broker, MessageSource


async def look_at_streams(
    name: str,
    broker: Broker,
    source: str,
    settings: MessageSource,
    stored: Mapping[str, StreamPosition],
    most: int,
) -> Sequence[SeenStream]:
    """The queue of a source (`kinds.look_of`). Raises BrokerUnavailable."""
    del stored, most  # it has no positions
    queue = settings.rabbitmq_queue or ""
    connection = await connect(name, broker, f"inboxd, look at source {source}")
    try:
        answer = await connection.call(amqp.declared_passively(queue))
    except AmqpClosed as closed:
        raise connection.unavailable(
            f"does not let us look at queue {queue!r} ({closed.text}): declare it, or correct "
            f"rabbitmq_queue of [inbound.messages.{source}]"
        ) from closed
    finally:
        await connection.close()
    waiting = cast(commands.Queue.DeclareOk, answer).message_count
    return [SeenStream(stream=queue, oldest=None, end=None, waiting=waiting)]
