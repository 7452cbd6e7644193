"""Stores a page of messages: makes events, writes them, halves a refused page.

Promises: no part of a page is stored while one of its topics is paused; a message that the database
refuses, or that takes too long alone, and again, although the database commits, becomes a dead
letter, and the others are stored; messages of one stream are stored in order; messages after a
failed one are processed again, and passed over if they are stored. Known limit: a whole page is in
memory twice, as messages and as events. *See:* `compiled.py`, `streams.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

from anyio.lowlevel import checkpoint

from inboxd.brokers.contract import IncomingMessage
from inboxd.engine.controls import Controls
from inboxd.errors import LeaseLost
from inboxd.inbound.commits import commit_nothing, commits
from inboxd.inbound.event_maker import broken_instead
from inboxd.inbound.messages.compiled import CompiledMessageSource
from inboxd.inbound.messages.streams import OpenedStreams
from inboxd.model.message import ReceivedMessage
from inboxd.model.splitting import Pieces
from inboxd.store import topics
from inboxd.store.connections import is_late, is_passing, is_refusal
from inboxd.store.pools import Pool, borrow
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.messages import SourceMetrics

_log = get_logger(__name__)

# Bytes to decode before the event loop runs other tasks; minimum bytes that a message counts.
_TURN_BYTES = 256 * 1024
_MESSAGE_BYTES = 1024
# Seconds for a tiny commit: a database that takes longer is slow itself.
_COMMIT_SECONDS = 2.0


class TopicsPaused(Exception):
    """Events of a page belong to paused topics."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self.names = names


class PageStoring:
    def __init__(
        self,
        source: CompiledMessageSource,
        streams: OpenedStreams,
        pool: Pool,
        controls: Controls,
        metrics: SourceMetrics,
    ) -> None:
        self._source = source
        self._streams = streams
        self._pool = pool
        self._commit = partial(commit_nothing, pool, _COMMIT_SECONDS)
        self._controls = controls
        self._metrics = metrics

    async def store(self, page: Sequence[IncomingMessage]) -> None:
        """Raises TopicsPaused, and then nothing is stored; LeaseLost; the database's errors."""
        messages = await self._made(page)
        await self._check_topics(messages)
        for portion in _portions(messages, self._source.settings.page_bytes):
            await self._store_each(portion)

    async def _made(self, page: Sequence[IncomingMessage]) -> list[ReceivedMessage]:
        found, weight = [], 0
        for message in page:
            found.append(self._source.received(message))
            weight += len(message.body) + _MESSAGE_BYTES
            if weight > _TURN_BYTES:
                weight = 0
                await checkpoint()
        return found

    async def _check_topics(self, messages: Sequence[ReceivedMessage]) -> None:
        """Raise TopicsPaused. Topics that the settings name were checked earlier."""
        paused = self._controls.named("topic")
        if not paused or self._source.settings.topics:
            return
        types = {event.type for message in messages for event in message.events}
        async with borrow(self._pool) as session:
            meant = await topics.of_types(session, sorted(types))
        if found := meant.intersection(paused):
            raise TopicsPaused(frozenset(found))

    async def _store_each(self, messages: Sequence[ReceivedMessage]) -> None:
        pieces, again, instead = Pieces(messages), None, None
        for part in pieces:
            try:
                await self._store(part)
            except LeaseLost:
                await self._leave_taken()
                pieces.next(part)
            except Exception as error:
                if is_passing(error) or part[0] is instead:
                    raise
                if is_late(error) and not await commits(self._commit):
                    raise
                if pieces.halve(part):
                    continue
                if is_late(error) and part[0] is not again:
                    again = part[0]
                    pieces.next(part)
                else:
                    instead = self._instead(part[0], error)
                    pieces.next([instead])

    async def _store(self, part: Sequence[ReceivedMessage]) -> None:
        started = monotonic()
        done = await self._streams.store(part)
        self._metrics.stored(monotonic() - started)
        written, duplicates, contradictions, broken = done.events
        self._metrics.events(
            written=written,
            duplicate=duplicates,
            contradiction=contradictions,
            broken=broken,
            passed_over=done.passed_over,
        )

    async def _leave_taken(self) -> None:
        """Drop streams that other readers have opened. Raises LeaseLost or StreamReset."""
        if not await self._streams.watch():
            raise LeaseLost(f"another worker reads the source {self._source.name!r} by now")

    def _instead(self, message: ReceivedMessage, error: Exception) -> ReceivedMessage:
        """Raises the error unless it is a refusal or a timeout."""
        if not (is_refusal(error) or is_late(error)):
            raise error
        why = "refuses it" if is_refusal(error) else "takes too long for it"
        reason = f"the database {why}: {type(error).__name__}"
        _log.error(
            "a message is a dead letter",
            source=self._source.name,
            stream=message.stream,
            position=message.position,
            error=type(error).__name__,
        )
        events = broken_instead(self._source.name, message.body, message.events, reason)
        return replace(message, events=events, correlation_id=None, occurred_at=None)


def _portions(
    messages: Sequence[ReceivedMessage], most: int
) -> Iterator[Sequence[ReceivedMessage]]:
    """Split the messages into parts whose bodies have about `most` bytes each."""
    begin, weight = 0, 0
    for end, message in enumerate(messages, 1):
        weight += len(message.body)
        if weight >= most:
            yield messages[begin:end]
            begin, weight = end, 0
    if begin < len(messages):
        yield messages[begin:]
