"""The endpoints of one worker, by name, as its deliveries find them.

Promises that a delivery of an endpoint that is not known yet waits until the table has been read
once more, so that who adds an endpoint and sends to it at once is not refused. Known limit: what
changed a moment ago counts from the next reading on.
*See:* `inboxd.engine.endpoints`, which keeps it current; `delivery`, which asks it.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar

import anyio

from inboxd.model.endpoints import WrittenEndpoint
from inboxd.outbound.endpoints.endpoint import News, ServedEndpoint

# The type of the commands that are deliveries.
DELIVER = "webhook.deliver"
# Seconds that a delivery waits for a reading.
_PATIENCE = 10.0


class EndpointBook:
    """All endpoints of one worker."""

    def __init__(self, on_news: Callable[[], None] = lambda: None) -> None:
        """Empty until `take_over`; `on_news` is called when something is to be written or read."""
        self._by_name: dict[str, ServedEndpoint] = {}
        self._on_news = on_news
        self._next = anyio.Event()
        # Those that had deliveries since they were asked for what is unwritten.
        self._touched: dict[str, ServedEndpoint] = {}

    @property
    def endpoints(self) -> Collection[ServedEndpoint]:
        """All of them."""
        return self._by_name.values()

    def reading(self) -> Callable[[], None]:
        """A reading begins; what is returned is called when it has been taken over."""
        event, self._next = self._next, anyio.Event()
        return event.set

    def take_over(self, rows: Mapping[str, WrittenEndpoint], now: float) -> None:
        """What the table says; now: when it was asked."""
        self._by_name = {
            name: ServedEndpoint(row, now)
            if (known := self._by_name.get(name)) is None
            else known.learn(row, now)
            for name, row in rows.items()
        }
        # A failure that another worker wrote may be older than a success here: that is put right
        # now, since no delivery may end here for days.
        self._touched |= {n: each for n, each in self._by_name.items() if each.is_watched(now)}

    async def find(self, name: str) -> ServedEndpoint | None:
        """The endpoint of this name; None: there is none. Raises TimeoutError."""
        found = self._by_name.get(name)
        if found is None:
            event = self._next
            self._on_news()
            with anyio.fail_after(_PATIENCE):
                await event.wait()
            found = self._by_name.get(name)
        return found

    # --------------------------------------------------------------------- how deliveries went

    def succeeded(self, endpoint: ServedEndpoint, status: int) -> None:
        """It took a delivery."""
        endpoint.succeeded(status, time.monotonic())
        self._touch(endpoint)

    def failed(self, endpoint: ServedEndpoint, status: int | None, reason: str) -> None:
        """It did not."""
        endpoint.failed(status, reason, time.monotonic())
        self._touch(endpoint)

    def is_gone(self, endpoint: ServedEndpoint, status: int, reason: str) -> None:
        """It wants no deliveries any more: that is written at once."""
        endpoint.is_gone(status, reason, time.monotonic())
        self._touch(endpoint)
        self._on_news()

    def _touch(self, endpoint: ServedEndpoint) -> None:
        name = endpoint.written.name
        if self._by_name.get(name) is endpoint:  # else its URL is another one by now
            self._touched[name] = endpoint

    def unwritten(self, now: float) -> list[tuple[ServedEndpoint, News]]:
        """What is to be written now."""
        touched = {name: each for name, each in self._touched.items() if each.is_watched(now)}
        self._touched = {n: each for n, each in touched.items() if self._by_name.get(n) is each}
        found = ((each, each.unwritten(now)) for each in self._touched.values())
        return [(each, news) for each, news in found if news is not None]


# Inherited by each task in which a delivery runs.
book: ContextVar[EndpointBook] = ContextVar("inboxd_endpoints")
