"""Publishes to NATS JetStream; each message is confirmed by the stream that took it.

Promises: messages are sent in order, without waiting for one another; a stream stores a repetition
(`Nats-Msg-Id`) within its window (`duplicates`) only once, which counts as a confirmation; a page
that is cancelled or fails cuts the connection: nothing of it is sent later.
NATS answers "no responders" for a subject that no stream takes, for a stream without a leader, and
while it starts or stops. So JetStream is asked which stream takes the subject: if none does, the
message is refused; else the broker is unavailable, which spends no attempt.
Known limits: the message is also refused if the user may not ask (`$JS.API.STREAM.NAMES`), if its
account has no JetStream, or if the stream belongs to another account. If a service subscribes to a
subject that no stream takes, only the relay's time limit ends the wait. In an account with leaf
nodes and without JetStream, such a subject mostly counts as an outage.
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
_TOO_LARGE = 10054  # JetStream's error number: message larger than the stream allows
# JetStream's numbers of errors that pass by themselves: temporarily unavailable, no leader (the
# cluster cannot handle the request), too many requests.
_PASSING = (10008, 10009, 10167)
_ASKING = "$js.api.stream.names"
# The number of subjects that JetStream is asked about at the same time.
_SIDE_BY_SIDE = 20


class _Unconfirmed:
    def __init__(self, messages: Sequence[OutgoingMessage], tell: Tell, first: int) -> None:
        self.messages = messages
        self.first = first
        """The number of its first message; each answer has its message's number."""
        self.open = len(messages)
        self.unanswered: dict[str, list[int]] = {}
        """By subject: the indexes of messages that were answered "no responders"."""
        self.passing: BrokerUnavailable | None = None
        """Why a message was not taken now; such a message gets no result."""
        self.ended = anyio.Event()
        self._tell = tell
        self._answered = bytearray(len(messages))

    def tell(self, place: int, error: Exception | None) -> None:
        if self._answer(place):
            self._tell(place, error)

    def no_responders(self, place: int) -> None:
        if self._answer(place):
            self.unanswered.setdefault(self.messages[place].to, []).append(place)

    def not_now(self, place: int, error: BrokerUnavailable) -> None:
        if self._answer(place):
            self.passing = error

    def refuse_unanswered(self, subject: str) -> None:
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
    def __init__(self, connection: NatsConnection) -> None:
        """connection: must hand over its inbox to this publisher."""
        self._connection = connection
        self._reply = f"{connection.inbox}."
        self._may_ask = True
        self._asking = anyio.CancelScope()
        self._page = _Unconfirmed((), _ignore, 0)

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
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
            if page.unanswered or page.passing is not None:
                await self._explain_open(page)
        except BaseException:
            self._connection.drop()
            raise

    async def close(self) -> None:
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

    async def _explain_open(self, page: _Unconfirmed) -> None:
        """Raises BrokerUnavailable if a stream takes one, or if that is not known in time."""
        unknown = dict.fromkeys(page.unanswered)
        troubles = [] if page.passing is None else [page.passing]
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
                    f"JetStream did not answer within {patience:g} s which stream takes "
                    f"{next(iter(unknown))!r}: it hangs, or the account has leaf nodes and no "
                    "JetStream; in that case deny the user $JS.API.STREAM.NAMES, so that messages "
                    "which no stream takes are refused."
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
        """Handle the answer to a message; ignore answers that are not from a stream."""
        page = self._page
        place = int(subject[len(self._reply) :]) - page.first
        if status_of(headers).code == _NO_RESPONDERS:
            page.no_responders(place)
            return
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            return
        if isinstance(answer, dict):
            if (error := answer.get("error")) and error.get("err_code") in _PASSING:
                why = f"stream {answer.get('stream')} does not take messages now: {said(error)}."
                page.not_now(place, self._connection.unavailable(why))
            elif error:
                page.tell(place, _refused(answer.get("stream"), error))
            elif "seq" in answer:
                page.tell(place, None)

    def forbidden(self, what: str) -> None:
        """Refuse messages to the subject that `what` names, in lower case."""
        if _ASKING in what:
            self._may_ask = False
            self._asking.cancel()
        page = self._page
        for place, message in enumerate(page.messages):
            if f'publish to "{message.to}"'.lower() in what:
                page.tell(
                    place, MessageRefused(f"{what}: allow the broker's user to publish to it.")
                )

    def lost(self) -> None:
        self._page.ended.set()


async def open_publisher(name: str, broker: Broker) -> NatsPublisher:
    """Connect, and listen for answers. Raises BrokerUnavailable."""
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


def _ignore(place: int, error: Exception | None) -> None:
    """Ignore results before the first page."""
