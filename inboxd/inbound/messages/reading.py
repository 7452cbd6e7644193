"""Reads from one consumer: receives a page while the previous one is stored, then acknowledges.

A page is acknowledged after its commit, and after all pages before it; at most one page is being
stored and one is held; only one task uses the consumer. *See:* `source.py`, `storing.py`.
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

# Seconds to wait for the first message: while no page is being stored, and while one is.
_IDLE_SECONDS, _BUSY_SECONDS = 0.25, 0.02
# Extra seconds for a consumer: its group may rebalance, or it may connect again.
_LONGEST_SECONDS = 120.0


class StoredPage:
    def __init__(self, messages: Sequence[IncomingMessage]) -> None:
        self.messages = messages
        self.error: Exception | None = None
        self._ended = anyio.Event()

    async def store(self, storing: PageStoring) -> None:
        """Store the page; `wait` raises its error."""
        try:
            await storing.store(self.messages)
        except Exception as error:  # noqa: BLE001 - raised by `wait`
            self.error = error
        except BaseException:
            self.error = DatabaseError("the worker stopped while it stored a page")
            raise
        finally:
            self._ended.set()

    async def ended(self) -> None:
        """Wait until the page is stored or has failed."""
        await self._ended.wait()

    async def wait(self) -> None:
        """Wait until the page is stored. Raises its error."""
        await self._ended.wait()
        if self.error is not None:
            raise self.error


class ConsumerReading:
    def __init__(
        self,
        consumer: Consumer,
        tasks: TaskGroup,
        settings: MessageSource,
        streams: OpenedStreams,
        storing: PageStoring,
        metrics: SourceMetrics,
    ) -> None:
        self._consumer = consumer
        self._tasks = tasks
        self._rows = min(settings.page_rows, settings.prefetch)
        self._prefetch = settings.prefetch
        self._streams = streams
        self._storing = storing
        self._metrics = metrics
        self._page: StoredPage | None = None

    async def run(self, goes_on: Callable[[], Awaitable[bool]]) -> None:
        """Raises errors of broker and database, LeaseLost, TopicsPaused and StreamReset."""
        try:
            while await goes_on():
                await self._turn()
            await self._acknowledge()
        finally:
            if self._page is not None:
                await self._page.ended()

    async def _turn(self) -> None:
        page = [
            *await self._receive(
                self._room(), _IDLE_SECONDS if self._page is None else _BUSY_SECONDS
            )
        ]
        await self._acknowledge()
        if page and len(page) < self._rows:  # take messages that arrived in the meantime
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
        with anyio.move_on_after(within + _LONGEST_SECONDS) as scope:
            page = await self._consumer.receive(most, within)
        if scope.cancelled_caught:
            raise BrokerUnavailable(
                f"the broker's client did not return within {_LONGEST_SECONDS:g} s"
            )
        if page:
            self._metrics.received(len(page), sum(message.redelivered for message in page))
            await self._streams.open_all(page)
        return page

    async def _acknowledge(self) -> None:
        page, self._page = self._page, None
        if page is None:
            return
        await page.wait()
        try:
            await self._consumer.acknowledge(page.messages)
        except BrokerUnavailable:
            self._metrics.unacknowledged.inc()
            raise
