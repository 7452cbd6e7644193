"""The streams of one consumer that this worker has opened, with their stored positions.

Promises: a message is stored once, however often the broker delivers it, also within one page;
after another reader has opened a stream, or an operator has reset it, no more of its messages are
stored; opening a stream waits for the page that is being stored. Known limit: without positions of
the broker, each message is new. *See:* `inboxd/store/stream_positions.py`.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import anyio

from inboxd.brokers.contract import IncomingMessage, StreamPosition
from inboxd.errors import LeaseLost
from inboxd.model.message import ReceivedMessage
from inboxd.store import stream_positions as store
from inboxd.store.pools import Pool, borrow
from inboxd.store.stream_positions import Begins, OpenedStream, PageStored

# Seconds for which a consumer may still deliver messages of a stream that another worker has
# opened: within that time its group informs it.
_PATIENCE_SECONDS = 30.0


class StreamReset(Exception):
    """An operator has reset a stream: it must be opened again."""


class StoredPart(NamedTuple):
    """The result of storing messages. passed_over: events of messages that are not new."""

    events: PageStored
    passed_over: int


class OpenedStreams:
    def __init__(
        self, pool: Pool, source: str, begin: Begins, worker: UUID, *, grouped: bool
    ) -> None:
        """begin: of a new stream. grouped: the broker divides streams among its readers."""
        self._pool = pool
        self._source = source
        self._begin: Begins = begin
        self._worker = worker
        self._grouped = grouped
        self._opened: dict[str, OpenedStream] = {}
        # Streams that other workers have opened since, and the time when this worker noticed.
        self._taken: dict[str, float] = {}
        # Held while a page is stored with the fences of its streams.
        self._storing = anyio.Lock()

    async def stored(self, stream: str, end: StreamPosition | None = None) -> StreamPosition | None:
        """Open a stream; returns its stored position (`contract.Stored`)."""
        async with self._storing, borrow(self._pool) as session:
            given = (session, self._source)
            opened = await store.open_stream(*given, stream, self._worker)
            newest = (opened.begins or self._begin) == "newest"
            if opened.position is None and newest and end is not None:
                await store.begin(*given, opened, end.position, end.identity)
        self._taken.pop(stream, None)
        self._opened[stream] = opened
        if opened.position is None:
            return None
        return StreamPosition(opened.position, opened.identity)

    async def store(self, messages: Sequence[ReceivedMessage]) -> "StoredPart":
        """Store the new messages among these. Raises LeaseLost, and the database's errors."""
        async with self._storing:
            new = self._new(messages)
            given, kept = (sum(len(each.events) for each in some) for some in (messages, new))
            passed_over = given - kept
            if not new:
                return StoredPart(PageStored(0, 0, 0, 0), passed_over)
            opened = [self._opened[name] for name in dict.fromkeys(each.stream for each in new)]
            async with borrow(self._pool) as session:
                written = await store.store(session, self._source, new, opened)
            return StoredPart(written, passed_over)

    async def open_all(self, messages: Sequence[IncomingMessage]) -> None:
        """Open streams without positions, which the consumer cannot open. Raises LeaseLost."""
        for name in dict.fromkeys(each.stream for each in messages):
            since = self._taken.get(name)
            if since is not None and time.monotonic() - since > _PATIENCE_SECONDS:
                raise LeaseLost(
                    f"the stream {name!r} is read by another worker, but its messages still arrive"
                )
            if since is None and name not in self._opened:
                await self.stored(name)

    async def watch(self) -> bool:
        """Drop streams that others have opened; returns whether there were any. Raises StreamReset.

        Raises LeaseLost if one worker reads all streams: dropped messages would be acknowledged,
        and a broker without positions would forget them.
        """
        async with self._storing, borrow(self._pool) as session:
            opened = [*self._opened.values()]
            moved = await store.moved(session, self._source, opened)
        for stream, reader in moved.items():
            del self._opened[stream]
            if reader is None:
                raise StreamReset(stream)
            self._taken[stream] = time.monotonic()
        if moved and not self._grouped:
            raise LeaseLost(f"another worker reads the source {self._source!r} by now")
        return bool(moved)

    def _new(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """After a rebalance the broker delivers unstored ones again: a page may have them twice."""
        through = {name: opened.position for name, opened in self._opened.items()}
        found = []
        for message in messages:
            stream, position = message.stream, message.position
            if stream not in through:
                continue
            if position is not None:
                if (last := through[stream]) is not None and position <= last:
                    continue
                through[stream] = position
            found.append(message)
        return found
