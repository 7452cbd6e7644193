"""Looks up the state of a JetStream stream, without opening, making or acknowledging anything.

Known limits: a stream that drops acknowledged messages has no stored message to show; with a
filter, waiting messages are counted by its consumer.
"""

from collections.abc import Mapping, Sequence

from inboxd.brokers.contract import IncomingMessage, SeenStream, StreamPosition, kept
from inboxd.brokers.nats.connection import NatsConnection
from inboxd.brokers.nats.jetstream import (
    LIMITS,
    NatsDurable,
    NatsStream,
    durable_of,
    message_at,
    stream_of,
)
from inboxd.brokers.nats.messages import message
from inboxd.brokers.nats.protocol import is_meant
from inboxd.brokers.nats.reaching import connect
from inboxd.brokers.nats.resumption import FollowedStream
from inboxd.errors import StreamLost
from inboxd.settings import Broker, MessageSource


async def look_at_streams(
    name: str,
    broker: Broker,
    source: str,
    settings: MessageSource,
    stored: Mapping[str, StreamPosition],
    most: int,
) -> Sequence[SeenStream]:
    """The stream of a source (`kinds.look_of`). Raises BrokerUnavailable."""
    connection = await connect(name, broker)
    try:
        return [await _seen(connection, source, settings, stored, most)]
    finally:
        await connection.end()


async def _seen(
    connection: NatsConnection,
    source: str,
    settings: MessageSource,
    stored: Mapping[str, StreamPosition],
    most: int,
) -> SeenStream:
    name = settings.nats_stream or ""
    followed = FollowedStream(name, source, connection.place, settings.nats_subjects)
    at = stored.get(name)
    stream = await stream_of(connection, name)
    if stream is None:
        missing = followed.missing(at)
        if not isinstance(missing, StreamLost):
            raise missing
        return SeenStream(stream=name, oldest=None, end=None, waiting=None, lost=str(missing))
    durable = await durable_of(connection, name, settings.durable(source))
    lost = ""
    latest: Sequence[IncomingMessage] = ()
    if at is not None:
        try:
            followed.resumed(stream, durable, at)
        except StreamLost as error:
            lost = str(error)
        else:
            latest = await _latest(connection, stream, at, settings, most)
    return SeenStream(
        stream=name,
        oldest=stream.first,
        end=stream.last,
        waiting=_waiting(stream, durable, at, settings),
        lost=lost,
        latest=latest,
    )


def _waiting(
    stream: NatsStream,
    durable: NatsDurable | None,
    at: StreamPosition | None,
    settings: MessageSource,
) -> int | None:
    if settings.nats_subjects or stream.retention != LIMITS:
        return None if durable is None else durable.waiting
    return stream.last - max(stream.first - 1, 0 if at is None else at.position)


async def _latest(
    connection: NatsConnection,
    stream: NatsStream,
    at: StreamPosition,
    settings: MessageSource,
    most: int,
) -> list[IncomingMessage]:
    """The messages at the last positions that the source follows."""
    found: list[IncomingMessage] = []
    if stream.retention != LIMITS or not at.identity:  # else an operator set the position
        return found
    for position in range(max(stream.first, at.position - most + 1), at.position + 1):
        there = await message_at(connection, stream.name, position)
        if there is None or not _is_followed(there.subject, settings):
            continue
        found.append(
            message(
                stream.name,
                position,
                stream.created,
                subject=there.subject,
                block=there.headers,
                content=kept(there.body, settings.max_body),
                sent_at=there.sent_at,
            )
        )
    return found


def _is_followed(subject: str, settings: MessageSource) -> bool:
    patterns = settings.nats_subjects
    return not patterns or any(is_meant(subject, pattern) for pattern in patterns)
