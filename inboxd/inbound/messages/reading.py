"""Reads from one consumer: receives a page while the one before it is stored, then acknowledges.

Owns the order of that. Promises that a page is acknowledged after its commit, and not before those
in front of it; that one page is stored and one is held beside it, at most, whatever comes; that the
consumer is used by one task alone, and closed whatever happens. Known limit: what was received and
not stored when reading ends is the broker's again.
*See:* `source.py`, before it; `storing.py`.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from inboxd.brokers.contract import Consumer, IncomingMessage
from inboxd.errors import BrokerUnavailable, DatabaseError
from inboxd.inbound.messages.storing import PageStoring
from inboxd.inbound.messages.streams import OpenedStreams
from inboxd.settings import MessageSource
from inboxd.telemetry.messages import SourceMetrics

# Seconds that the first message is waited for: while nothing is under way, and while a page is.
_IDLE, _BUSY = 0.25, 0.02
# What a consumer may take beyond that: a group divides its streams, a connection is tried again.
_LONGEST = 120.0


class StoredPage:
    """A page that is being stored, or was."""

    def __init__(self, messages: Sequence[IncomingMessage]) -> None:
        self.messages = messages
        self.error: Exception | None = None
        self._ended = anyio.Event()

    async def store(self, storing: PageStoring) -> None:
        """Store it; does not raise."""
        try:
            await storing.store(self.messages)
        except Exception as error:  # noqa: BLE001 - raised by `wait`
            self.error = error
        except BaseException:
            self.error = DatabaseError("a page was not stored to its end: this worker stops")
            raise
        finally:
            self._ended.set()

    async def ended(self) -> None:
        """Wait until it is stored, or cannot be, as long as the server may work on it."""
        await self._ended.wait()

    async def wait(self) -> None:
        """Wait until it is stored. Raises what was in the way."""
        await self._ended.wait()
        if self.error is not None:
            raise self.error


class ConsumerReading:
    """One consumer, until its end."""

    def __init__(
        self,
        consumer: Consumer,
        tasks: TaskGroup,
        settings: MessageSource,
        streams: OpenedStreams,
        storing: PageStoring,
        metrics: SourceMetrics,
    ) -> None:
        """Nothing is received yet; tasks: where pages are stored."""
        self._consumer = consumer
        self._tasks = tasks
        self._rows = min(settings.page_rows, settings.prefetch)
        self._prefetch = settings.prefetch
        self._streams = streams
        self._storing = storing
        self._metrics = metrics
        self._page: StoredPage | None = None

    async def run(self, goes_on: Callable[[], Awaitable[bool]]) -> None:
        """Read as long as it goes on; then store and acknowledge what is being stored.

        Raises BrokerUnavailable, StreamLost, LeaseLost, TopicsPaused, StreamReset, and what the
        database raises.
        """
        try:
            while await goes_on():
                await self._turn()
            await self._acknowledge()
        finally:
            if self._page is not None:
                await self._page.ended()

    async def _turn(self) -> None:
        """Receive while the page before is stored; then let what came be the next one."""
        page = [*await self._receive(self._room(), _IDLE if self._page is None else _BUSY)]
        await self._acknowledge()
        if page and len(page) < self._rows:  # what came meanwhile
            page += await self._receive(self._rows - len(page), 0.0)
        if page:
            self._page = StoredPage(page)
            self._tasks.start_soon(self._page.store, self._storing)

    def _room(self) -> int:
        held = 0 if self._page is None else len(self._page.messages)
        return min(self._rows, self._prefetch - held)

    async def _receive(self, most: int, within: float) -> Sequence[IncomingMessage]:
        if most <= 0:
            return ()
        page: Sequence[IncomingMessage] = ()
        with anyio.move_on_after(within + _LONGEST) as scope:
            page = await self._consumer.receive(most, within)
        if scope.cancelled_caught:
            raise BrokerUnavailable(f"its client did not come back within {_LONGEST:g} s")
        if page:
            self._metrics.received(len(page), sum(message.redelivered for message in page))
            await self._streams.open_all(page)
        return page

    async def _acknowledge(self) -> None:
        """Wait for the page that is being stored, and acknowledge it."""
        page, self._page = self._page, None
        if page is None:
            return
        await page.wait()
        try:
            await self._consumer.acknowledge(page.messages)
        except BrokerUnavailable:
            self._metrics.unacknowledged.inc()
            raise
