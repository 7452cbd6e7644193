"""Publishes to NATS JetStream, each message confirmed by the stream that took it.

Promises: messages go out in the order given, without a wait for one another; each has the event's
id (`Nats-Msg-Id`), so that a stream keeps one of a repetition within its window (`duplicates`), and
that is a confirmation too. A page that is cancelled or fails cuts the connection: nothing of it is
sent later.
Known limits: NATS says the same of a subject that no stream takes and of a stream that has no
leader, so that is refused, not for good; where a service subscribes to a subject that no stream
takes, no answer comes at all, and the time limit of the relay ends it.
"""

from collections.abc import Sequence

import anyio
import orjson

from inboxd.brokers.contract import OutgoingMessage, Tell
from inboxd.brokers.nats.connection import NatsConnection, said
from inboxd.brokers.nats.protocol import publication, status_of
from inboxd.brokers.nats.reaching import connect
from inboxd.errors import MessageRefused
from inboxd.settings import Broker

_CHUNK_BYTES = 64 * 1024
_NO_RESPONDERS = 503
_TOO_LARGE = 10054  # for the stream; JetStream's number of that error


class _Unconfirmed:
    """Messages of one `publish`, until each is told of."""

    def __init__(self, messages: Sequence[OutgoingMessage], tell: Tell, first: int) -> None:
        self.messages = messages
        self.first = first
        """The number of its first message: answers have one."""
        self.open = len(messages)
        self.ended = anyio.Event()
        self._tell = tell
        self._told = bytearray(len(messages))

    def tell(self, place: int, error: Exception | None) -> None:
        """Tell it, unless that was done."""
        if 0 <= place < len(self._told) and not self._told[place]:
            self._told[place] = 1
            self.open -= 1
            self._tell(place, error)
            if not self.open:
                self.ended.set()


class NatsPublisher:
    """A publisher over one connection."""

    def __init__(self, connection: NatsConnection) -> None:
        """Use a connection that hands over its inbox to this."""
        self._connection = connection
        self._reply = f"{connection.inbox}."
        self._page = _Unconfirmed((), _nobody, 0)

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        """Publish them, and wait for all answers. Raises BrokerUnavailable."""
        if not messages:
            return
        self._connection.check()
        before = self._page
        page = self._page = _Unconfirmed(messages, tell, before.first + len(before.messages))
        try:
            await self._send(page)
            await page.ended.wait()
            if page.open:
                self._connection.check()
        except BaseException:
            self._connection.drop()
            raise

    async def close(self) -> None:
        """Cut the connection."""
        await self._connection.end()

    async def _send(self, page: _Unconfirmed) -> None:
        most = self._connection.max_payload
        chunk, size = [], 0
        for place, message in enumerate(page.messages):
            try:
                piece = publication(message, f"{self._reply}{page.first + place}", most)
            except MessageRefused as error:
                page.tell(place, error)
                continue
            chunk.append(piece)
            size += len(piece)
            if size >= _CHUNK_BYTES:
                self._connection.write(b"".join(chunk))
                chunk, size = [], 0
                await self._connection.drain()
        self._connection.write(b"".join(chunk))
        await self._connection.drain()

    def arrived(self, subject: bytes, _reply: bytes, body: bytes, headers: bytes | None, /) -> None:
        """An answer to a message; what no stream says is none."""
        page = self._page
        place = int(subject[len(self._reply) :]) - page.first
        if status_of(headers).code == _NO_RESPONDERS and 0 <= place < len(page.messages):
            page.tell(place, _untaken(page.messages[place].to))
            return
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            return
        if isinstance(answer, dict):
            if error := answer.get("error"):
                page.tell(place, _refused(answer.get("stream"), error))
            elif "seq" in answer:
                page.tell(place, None)

    def forbidden(self, what: str) -> None:
        """Refuse what was published to the subject that it names, in lower case."""
        page = self._page
        for place, message in enumerate(page.messages):
            if f'publish to "{message.to}"'.lower() in what:
                page.tell(place, MessageRefused(f"{what}: let the broker's user publish to it."))

    def lost(self) -> None:
        """Wake who waits for answers."""
        self._page.ended.set()


async def open_publisher(name: str, broker: Broker) -> NatsPublisher:
    """Connect. Raises BrokerUnavailable."""
    connection = await connect(name, broker)
    publisher = NatsPublisher(connection)
    try:
        await connection.listen(publisher)
    except BaseException:
        await connection.end()
        raise
    return publisher


def _untaken(subject: str) -> MessageRefused:
    return MessageRefused(
        f"no stream takes the subject {subject!r}: make one that does, or correct `to` of the "
        "relay.",
        unroutable=True,
    )


def _refused(stream: object, error: dict[str, object]) -> MessageRefused:
    return MessageRefused(
        f"stream {stream} refuses the message: {said(error)}.",
        for_good=error.get("err_code") == _TOO_LARGE,
    )


def _nobody(place: int, error: Exception | None) -> None:
    """Nothing was published yet."""
