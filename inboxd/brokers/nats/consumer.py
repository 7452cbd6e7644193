"""Consumes a JetStream stream from behind its stored position, each message once into the inbox.

Each opening makes the consumer anew: messages that another reader received and did not store come
again at once, in order, and an outdated reader notices that its consumer is gone. An
acknowledgement makes room for more messages, and allows the stream to delete the message. Promises:
messages are handed over in the stream's order, without gaps, and each once. A redelivery (AckWait)
is a message that is still being stored: it is skipped. If the number of a delivery is missing,
reading starts again. At most `prefetch` + 1 messages are requested before they are stored, with at
most the bytes of two pages (`page_bytes`), except that a larger message is requested alone. One
request is under way at a time, since the server counts the bytes of each. A server that sends no
heartbeat for seconds is unavailable. If the stream loses messages before they are handed over,
`StreamLost` is raised.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

import anyio
import orjson
from anyio import move_on_after

from inboxd.brokers.contract import IncomingMessage, LeftOutBody, kept
from inboxd.brokers.nats.connection import NatsConnection
from inboxd.brokers.nats.jetstream import (
    LIMITS,
    WORK_QUEUE,
    NatsDurable,
    NatsStream,
    durable_of,
    make_durable,
    stream_of,
)
from inboxd.brokers.nats.messages import message
from inboxd.brokers.nats.protocol import (
    Delivered,
    decoded,
    delivered,
    headers_of,
    status_of,
)
from inboxd.brokers.nats.resumption import FollowedStream, Note, identity
from inboxd.errors import BrokerUnavailable
from inboxd.settings import MessageSource

# A request ends after this time, and is repeated.
_REQUEST_SECONDS = 30.0
_HEARTBEAT_SECONDS = 5.0
_CLOSE_SECONDS = 1
# Minimum seconds between two notes in the consumer's description that nothing came.
_NOTE_SECONDS = 60.0
_HEARTBEAT, _REQUEST_ENDED, _CONFLICT, _NO_RESPONDERS = 100, 408, 409, 503
# These end a request, not the consumer.
_ASK_AGAIN = ("Leadership Change", "Batch Completed")
_NO_ROOM = "Message Size Exceeds MaxBytes"


class _Arrived(NamedTuple):
    at: Delivered
    subject: bytes
    reply: bytes
    body: bytes
    headers: bytes | None
    left_out: LeftOutBody | None


class NatsConsumer:
    def __init__(
        self,
        connection: NatsConnection,
        followed: FollowedStream,
        stream: NatsStream,
        durable: NatsDurable,
        config: Mapping[str, Any],
        note: Note,
        settings: MessageSource,
    ) -> None:
        """Read behind the position of `note`. config: the durable consumer's configuration."""
        self._connection = connection
        self._followed = followed
        self._stream = stream
        self._durable = durable
        self._config = config
        self._arrived: deque[_Arrived] = deque()
        self._news = anyio.Event()
        self._trouble: BrokerUnavailable | None = None
        self._begun_behind = note.position
        self._left_over: list[_Arrived] = []
        self._delivery = 0
        self._newest = self._through = self._nothing = self._noted = note.nothing
        self._noted_at = monotonic()
        self._handed = self._stored = (note.position, 0)
        """Position and delivery of the last message that was handed over, or stored."""
        self._heard = monotonic()
        self._max_body = settings.max_body
        self._most, self._most_bytes = settings.prefetch, 2 * settings.page_bytes
        self._unstored = deque[int]()
        """The bytes of each message that is held and not stored yet, in order."""
        self._unstored_bytes = 0
        self._asked_for = self._asked_bytes = 0
        """How many messages and bytes the current request may still bring."""

    async def start(self) -> None:
        await self._connection.listen(self)
        self._ask()

    async def receive(self, most: int, within: float) -> Sequence[IncomingMessage]:
        """The next messages. Raises BrokerUnavailable or StreamLost."""
        await self._wait(within)
        page = list(islice(self._arrived, most))
        through = page[-1].at.position if page else max(self._through, self._nothing)
        if through - self._through > len(page):  # the messages before were filtered out or removed
            now = await stream_of(self._connection, self._stream.name)
            self._followed.check(now, self._through, self._stream.created)
        for _ in page:
            self._arrived.popleft()
        self._through = through
        if page:
            self._handed = page[-1].at[:2]
        else:
            await self._note_nothing()
        return [self._message(each) for each in page]

    async def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        """Acknowledge each message if the stream is a work queue, else the last one for all."""
        if not messages:
            return
        self._check()
        tokens = [each.token for each in messages if isinstance(each.token, bytes)]
        if self._stream.retention != WORK_QUEUE:
            tokens = tokens[-1:]
        self._connection.write(b"".join([b"PUB %b 0\r\n\r\n" % token for token in tokens]))
        self._stored = delivered(tokens[-1])[:2]
        for _ in messages:
            self._unstored_bytes -= self._unstored.popleft()
        self._ask()

    async def lag(self) -> int | None:
        """Number of messages at the server, and of arrived messages that were not received."""
        try:
            durable = await durable_of(
                self._connection, self._stream.name, self._config["durable_name"]
            )
        except BrokerUnavailable:
            return None
        return None if durable is None else durable.waiting + len(self._arrived)

    async def close(self) -> None:
        """Send pending acknowledgements, and close. Does not raise."""
        with move_on_after(_CLOSE_SECONDS, shield=True), suppress(Exception):
            await self._connection.flush(timeout=_CLOSE_SECONDS)
        await self._connection.end()

    def arrived(self, subject: bytes, reply: bytes, body: bytes, headers: bytes | None, /) -> None:
        self._heard = monotonic()
        if not reply:
            self._status(headers)
            return
        at = delivered(reply)
        if at.delivery != self._delivery + 1:
            self._fail(f"delivery {self._delivery + 1} is missing: reading starts again.")
            return
        self._delivery = at.delivery
        size = len(body) + len(headers or b"")
        self._asked_for -= 1
        self._asked_bytes -= len(subject) + len(reply) + size
        if at.position > self._newest:
            self._newest = at.position
            self._hold(at, subject, reply, body, headers)
            self._news.set()
        elif at.position <= self._begun_behind:
            self._left_over.append(_Arrived(at, subject, reply, b"", None, None))
            self._news.set()
        if self._asked_bytes == 0:  # the request has ended without a status that tells so
            self._asked_for = 0
        if self._asked_for <= 0:
            self._ask()

    def forbidden(self, what: str) -> None:
        self._fail(f"{what}: grant the broker's user this permission.")

    def lost(self) -> None:
        self._news.set()

    def _hold(
        self, at: Delivered, subject: bytes, reply: bytes, body: bytes, headers: bytes | None
    ) -> None:
        body, left_out = kept(body, self._max_body)
        size = len(body) + len(headers or b"")
        self._unstored.append(size)
        self._unstored_bytes += size
        self._arrived.append(_Arrived(at, subject, reply, body, headers, left_out))

    def _status(self, headers: bytes | None) -> None:
        code, words = status_of(headers)
        found = headers_of(headers)
        if code == _HEARTBEAT:
            self._heartbeat(found)
        elif code == _REQUEST_ENDED or (code == _CONFLICT and words in _ASK_AGAIN):
            self._asked_for -= int(found.get("nats-pending-messages", self._asked_for))
            self._ask()
        elif code == _CONFLICT and words == _NO_ROOM:
            self._asked_for = 0
            if not self._unstored:  # else the next stored message makes room
                self._ask(larger=True)
        else:
            gone = code == _NO_RESPONDERS or words == "Consumer Deleted"
            self._fail(
                f"consumer {self._config['durable_name']} of stream {self._stream.name} delivers "
                + (
                    "nothing more: it was deleted, or another worker reads it now."
                    if gone
                    else f"nothing ({code} {words})."
                )
            )

    def _heartbeat(self, found: Mapping[str, str]) -> None:
        """If all deliveries came, no message for us is left up to the server's position."""
        if int(found["nats-last-consumer"]) != self._delivery:
            self._fail("deliveries are missing: reading starts again.")
        self._nothing = int(found["nats-last-stream"])

    def _ask(self, *, larger: bool = False) -> None:
        """Without room, ask for one message, to notice a lost consumer. larger: one of any size."""
        room, bytes_ = self._most - len(self._unstored), self._most_bytes - self._unstored_bytes
        if self._asked_for > 0 or room < 0 or bytes_ <= 0:
            return
        self._asked_for = 1 if larger else max(1, room)
        self._asked_bytes = 0 if larger else bytes_
        request = orjson.dumps(
            {
                "batch": self._asked_for,
                "max_bytes": self._asked_bytes,  # 0: any number
                "expires": round(_REQUEST_SECONDS * 1e9),
                "idle_heartbeat": round(_HEARTBEAT_SECONDS * 1e9),
            }
        )
        self._heard = monotonic()
        self._connection.write(
            b"PUB $JS.API.CONSUMER.MSG.NEXT.%b.%b %b.next %d\r\n%b\r\n"
            % (
                self._stream.name.encode(),
                self._config["durable_name"].encode(),
                self._connection.inbox.encode(),
                len(request),
                request,
            )
        )

    async def _wait(self, within: float) -> None:
        end = monotonic() + within
        self._check()
        await self._acknowledge_left_over()
        while (
            not self._arrived and self._nothing <= self._through and (left := end - monotonic()) > 0
        ):
            self._news = anyio.Event()
            owed = self._heard + _silence() - monotonic()
            with move_on_after(min(left, max(owed, 0.0))):
                await self._news.wait()
            self._check()
            await self._acknowledge_left_over()

    def _check(self) -> None:
        self._connection.check()
        if self._trouble is not None:
            raise self._trouble
        if self._asked_for > 0 and monotonic() - self._heard > _silence():
            raise self._connection.unavailable(
                f"no heartbeat within {_silence():g} s, so it hangs: reading starts again."
            )

    def _fail(self, why: str) -> None:
        self._trouble = self._trouble or self._connection.unavailable(why)
        self._news.set()

    async def _acknowledge_left_over(self) -> None:
        """Note their deliveries before, since no stored identity has them."""
        while self._left_over:
            those, self._left_over = self._left_over, []
            await self._describe(Note(self._stored[0], those[-1].at.delivery, self._noted))
            self._connection.write(b"".join([b"PUB %b 0\r\n\r\n" % each.reply for each in those]))

    async def _note_nothing(self) -> None:
        """Note in the description that nothing came, in case a filter lets few messages pass."""
        if (
            self._followed.filtered
            and self._stream.retention == LIMITS
            and self._stored == self._handed
            and self._through > self._noted
            and monotonic() - self._noted_at > _NOTE_SECONDS
        ):
            await self._describe(Note(*self._stored, self._through))
            self._noted, self._noted_at = self._through, monotonic()

    async def _describe(self, note: Note) -> None:
        await make_durable(
            self._connection, self._stream.name, {**self._config, "description": str(note)}
        )

    def _message(self, arrived: _Arrived) -> IncomingMessage:
        return message(
            self._stream.name,
            arrived.at.position,
            identity(self._stream, self._durable, arrived.at.delivery),
            subject=decoded(arrived.subject),
            block=arrived.headers,
            content=(arrived.body, arrived.left_out),
            sent_at=arrived.at.nanoseconds / 1e9,
            token=arrived.reply,
        )


def _silence() -> float:
    """The longest silence of a working server, in seconds."""
    return 3 * _HEARTBEAT_SECONDS
