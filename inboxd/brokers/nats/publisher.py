"""Publishes to NATS JetStream, each message confirmed by the stream that took it.

Promises: messages go out in the order given, without a wait for one another; each names its event
and its subject (`Nats-Msg-Id`), so that a stream keeps one of a repetition within its window
(`duplicates`), and that is a confirmation too. A page that is cancelled or fails cuts the
connection: nothing of it is sent later.
NATS says the same ("no responders") of a subject that no stream takes, of a stream that has no
leader, and while it starts or stops. So JetStream is asked which stream takes that subject: only if
none does is the message refused; else, and where that is not known in time, the broker is
unavailable, which spends no attempt.
Known limits: a user who may not ask that (`$JS.API.STREAM.NAMES`) gets the refusal in both cases,
and so does one whose account has no JetStream, or reaches the stream of another account; where a
service subscribes to a subject that no stream takes, no answer comes at all, and the time limit of
the relay ends it. In an account that has leaf nodes and no JetStream the server leaves the answer
to whoever is beyond them, so mostly nobody answers: as long as the user may ask, what no stream
takes counts as an outage there, since a JetStream that hangs looks the same.
"""

from collections.abc import Iterator, Sequence

import anyio
import orjson

from inboxd.brokers.contract import OutgoingMessage, Tell
from inboxd.brokers.nats.connection import NatsConnection, said
from inboxd.brokers.nats.jetstream import stream_that_takes
from inboxd.brokers.nats.protocol import publication, status_of
from inboxd.brokers.nats.reaching import connect
from inboxd.errors import BrokerUnavailable, MessageRefused
from inboxd.settings import Broker

_CHUNK_BYTES = 64 * 1024
_NO_RESPONDERS = 503
_TOO_LARGE = 10054  # for the stream; JetStream's number of that error
_ASKING = "$js.api.stream.names"
# Subjects that JetStream is asked about at the same time.
_SIDE_BY_SIDE = 20


class _Unconfirmed:
    """Messages of one `publish`, until each is told of."""

    def __init__(self, messages: Sequence[OutgoingMessage], tell: Tell, first: int) -> None:
        self.messages = messages
        self.first = first
        """The number of its first message: answers have one."""
        self.open = len(messages)
        self.unanswered: dict[str, list[int]] = {}
        """By subject, the places of those for which nobody was there to answer."""
        self.ended = anyio.Event()
        self._tell = tell
        self._answered = bytearray(len(messages))

    def tell(self, place: int, error: Exception | None) -> None:
        """Tell what became of a message, unless that was done."""
        if self._answer(place):
            self._tell(place, error)

    def nobody_answers(self, place: int) -> None:
        """Leave it to `refuse_unanswered` what that means."""
        if self._answer(place):
            self.unanswered.setdefault(self.messages[place].to, []).append(place)

    def refuse_unanswered(self, subject: str) -> None:
        """Tell of those that were sent there that no stream takes them."""
        refusal = _untaken(subject)
        for place in self.unanswered[subject]:
            self._tell(place, refusal)

    def _answer(self, place: int) -> bool:
        if not 0 <= place < len(self._answered) or self._answered[place]:
            return False
        self._answered[place] = 1
        self.open -= 1
        if not self.open:
            self.ended.set()
        return True


class NatsPublisher:
    """A publisher over one connection."""

    def __init__(self, connection: NatsConnection) -> None:
        """Use a connection that hands over its inbox to this."""
        self._connection = connection
        self._reply = f"{connection.inbox}."
        self._may_ask = True
        self._asking = anyio.CancelScope()
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
            if page.unanswered:
                await self._explain_silence(page)
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

    async def _explain_silence(self, page: _Unconfirmed) -> None:
        """Refuse what no stream takes, as soon as that is known.

        Raises BrokerUnavailable if a stream takes it, or if that is not known in time.
        """
        unknown = dict.fromkeys(page.unanswered)
        troubles: list[BrokerUnavailable] = []
        patience = self._connection.patience
        if self._may_ask:
            subjects = iter([*unknown])
            with anyio.move_on_after(patience) as self._asking:
                async with anyio.create_task_group() as group:
                    for _ in range(min(len(unknown), _SIDE_BY_SIDE)):
                        group.start_soon(self._find_takers, page, subjects, unknown, troubles)
        if not self._may_ask:
            for subject in unknown:
                page.refuse_unanswered(subject)
        elif unknown and not troubles:
            troubles.append(
                self._connection.unavailable(
                    f"JetStream does not say within {patience:g} s which stream takes "
                    f"{next(iter(unknown))!r}: it hangs. Or the account has leaf nodes and no "
                    "JetStream, where nobody says it: then deny the user "
                    "$JS.API.STREAM.NAMES, so that what no stream takes is refused."
                )
            )
        if troubles:
            raise troubles[0]

    async def _find_takers(
        self,
        page: _Unconfirmed,
        subjects: Iterator[str],
        unknown: dict[str, None],
        troubles: list[BrokerUnavailable],
    ) -> None:
        """Take subject by subject out of the unknown ones; does not raise BrokerUnavailable."""
        for subject in subjects:
            try:
                taker = await stream_that_takes(self._connection, subject)
            except BrokerUnavailable as error:
                troubles.append(error)
                continue
            del unknown[subject]
            if taker is None:
                page.refuse_unanswered(subject)
            else:
                troubles.append(self._silent(taker, subject))

    def _silent(self, stream: str, subject: str) -> BrokerUnavailable:
        return self._connection.unavailable(
            f"stream {stream} does not answer for {subject!r}: it has no leader, or the server "
            "starts or stops."
        )

    def arrived(self, subject: bytes, _reply: bytes, body: bytes, headers: bytes | None, /) -> None:
        """An answer to a message; what no stream says is none."""
        page = self._page
        place = int(subject[len(self._reply) :]) - page.first
        if status_of(headers).code == _NO_RESPONDERS:
            page.nobody_answers(place)
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
        if _ASKING in what:
            self._may_ask = False
            self._asking.cancel()
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
