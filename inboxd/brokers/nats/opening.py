"""Opens a consumer of a JetStream stream, behind the stored position.

The order matters. The existing consumer is looked up first: messages that it has acknowledged are
stored. Asking for the stored position shuts out an older reader. Losses are checked before anything
is changed. Making the consumer anew tells the older reader; a stream that keeps messages only while
a consumer exists gets a temporary one in between.
"""

from typing import Any

from inboxd.brokers.contract import Stored, StreamPosition
from inboxd.brokers.nats.connection import NatsConnection
from inboxd.brokers.nats.consumer import NatsConsumer
from inboxd.brokers.nats.jetstream import (
    INTEREST,
    WORK_QUEUE,
    NatsStream,
    delete_consumer,
    durable_of,
    hold_interest,
    make_durable,
    stream_of,
)
from inboxd.brokers.nats.reaching import connect
from inboxd.brokers.nats.resumption import FollowedStream, Note
from inboxd.settings import Broker, MessageSource

# Unacknowledged messages come again at the next opening; redeliveries before that are skipped.
_ACK_WAIT_NANOSECONDS = 22 * 3600 * 10**9
_FILTERS = (2, 10)  # the NATS version that allows several


async def open_consumer(
    name: str, broker: Broker, source: str, settings: MessageSource, stored: Stored
) -> NatsConsumer:
    """Connect, and continue the stream. Raises BrokerUnavailable or StreamLost."""
    connection = await connect(name, broker)
    try:
        return await _Opening(connection, source, settings, stored).consumer()
    except BaseException:
        await connection.end()
        raise


class _Opening:
    def __init__(
        self, connection: NatsConnection, source: str, settings: MessageSource, stored: Stored
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._stored = stored
        self._stream_name = settings.nats_stream or ""
        self._durable_name = settings.durable(source)
        self._followed = FollowedStream(
            self._stream_name, source, connection.place, settings.nats_subjects
        )

    async def consumer(self) -> NatsConsumer:
        connection, name = self._connection, self._stream_name
        stream = await stream_of(connection, name)
        if stream is None:
            raise self._followed.missing(await self._stored(name))
        if stream.retention == WORK_QUEUE and self._settings.begin == "newest":
            raise connection.unavailable(
                f"{name} is a work queue, which must be read from its oldest message: set begin to "
                "oldest."
            )
        durable = await durable_of(connection, name, self._durable_name)
        stored = await self._stored(name, StreamPosition(stream.last, stream.created))
        if stored is None:
            return await self._begun(stream, Note(0, 0, stream.first - 1))
        through = self._followed.resumed(stream, durable, stored)
        return await self._begun(stream, Note(stored.position, 0, through))

    async def _begun(self, stream: NatsStream, note: Note) -> NatsConsumer:
        connection, name = self._connection, stream.name
        config = self._config(stream, note.nothing)
        interest = None
        if stream.retention == INTEREST:
            interest = await hold_interest(connection, name, config)
        await delete_consumer(connection, name, self._durable_name)
        config |= {"durable_name": self._durable_name, "description": str(note)}
        durable = await make_durable(connection, name, config)
        if interest is not None:
            await delete_consumer(connection, name, interest)
        consumer = NatsConsumer(
            connection, self._followed, stream, durable, config, note, self._settings
        )
        await consumer.start()
        return consumer

    def _config(self, stream: NatsStream, through: int) -> dict[str, Any]:
        config: dict[str, Any] = {
            "ack_wait": _ACK_WAIT_NANOSECONDS,
            "max_deliver": -1,
            "max_ack_pending": self._settings.prefetch,
        }
        if stream.retention == WORK_QUEUE:  # messages leave it one by one, by acknowledgement
            config |= {"deliver_policy": "all", "ack_policy": "explicit"}
        else:
            config |= {
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": through + 1,
                "ack_policy": "all",
            }
        return config | self._filter()

    def _filter(self) -> dict[str, Any]:
        subjects = self._settings.nats_subjects
        if not subjects:
            return {}
        if len(subjects) == 1:
            return {"filter_subject": subjects[0]}
        version = self._connection.connected_server_version
        if (version.major, version.minor) < _FILTERS:
            raise self._connection.unavailable(
                "this server allows one subject per consumer: name one in nats_subjects, or use "
                "NATS 2.10."
            )
        return {"filter_subjects": list(subjects)}
