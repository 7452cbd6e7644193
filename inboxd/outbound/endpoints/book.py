"""The endpoints of one worker; a change applies when the table is read again. *See:* `delivery`."""

import time
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar

import anyio

from inboxd.model.endpoints import WrittenEndpoint
from inboxd.outbound.endpoints.endpoint import News, ServedEndpoint

# The type of deliveries, which are commands.
DELIVER = "webhook.deliver"
# Seconds for which a delivery waits for the next reading of the table.
_PATIENCE_SECONDS = 10.0


class EndpointBook:
    def __init__(self, on_news: Callable[[], None] = lambda: None) -> None:
        """Empty until `reload`. `on_news` is called if the table must be written or read."""
        self._by_name: dict[str, ServedEndpoint] = {}
        self._on_news = on_news
        self._next = anyio.Event()
        # Endpoints that may have changes to write.
        self._touched: dict[str, ServedEndpoint] = {}

    @property
    def endpoints(self) -> Collection[ServedEndpoint]:
        return self._by_name.values()

    def reading(self) -> Callable[[], None]:
        """Begin a reading; call the returned function when `reload` has its result."""
        event, self._next = self._next, anyio.Event()
        return event.set

    def reload(self, rows: Mapping[str, WrittenEndpoint], now: float) -> None:
        self._by_name = {
            name: ServedEndpoint(row, now)
            if (known := self._by_name.get(name)) is None
            else known.learn(row, now)
            for name, row in rows.items()
        }
        # Another worker may have written a failure that is older than a success here. Correct this
        # now: the next delivery may come much later.
        self._touched |= {n: each for n, each in self._by_name.items() if each.is_watched(now)}

    async def find(self, name: str) -> ServedEndpoint | None:
        """An unknown name waits for the next reading of the table. Raises TimeoutError."""
        found = self._by_name.get(name)
        if found is None:
            event = self._next
            self._on_news()
            with anyio.fail_after(_PATIENCE_SECONDS):
                await event.wait()
            found = self._by_name.get(name)
        return found

    # ------------------------------------------------------------------- results of deliveries

    def succeeded(self, endpoint: ServedEndpoint, status: int) -> None:
        endpoint.succeeded(status, time.monotonic())
        self._touch(endpoint)

    def failed(self, endpoint: ServedEndpoint, status: int | None, reason: str) -> None:
        endpoint.failed(status, reason, time.monotonic())
        self._touch(endpoint)

    def is_gone(self, endpoint: ServedEndpoint, status: int, reason: str) -> None:
        endpoint.is_gone(status, reason, time.monotonic())
        self._touch(endpoint)
        self._on_news()

    def _touch(self, endpoint: ServedEndpoint) -> None:
        name = endpoint.written.name
        if self._by_name.get(name) is endpoint:  # else its URL has changed
            self._touched[name] = endpoint

    def unwritten(self, now: float) -> list[tuple[ServedEndpoint, News]]:
        touched = {name: each for name, each in self._touched.items() if each.is_watched(now)}
        self._touched = {n: each for n, each in touched.items() if self._by_name.get(n) is each}
        found = ((each, each.unwritten(now)) for each in self._touched.values())
        return [(each, news) for each, news in found if news is not None]


# Inherited by the tasks that run deliveries.
book: ContextVar[EndpointBook] = ContextVar("inboxd_endpoints")
