"""Metrics of webhooks that come in; labels are the sources, and "" for an unknown source."""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_PAGE_BUCKETS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)

OUTCOMES = (
    *("stored", "duplicate", "contradiction", "broken", "held", "spooled"),
    *("refused", "failed"),
)
REASONS = (
    *("method", "address", "rate", "unsupported", "too_large", "busy", "paused"),
    *("malformed", "unauthentic", "not_durable"),
)


class SpoolGauges(Protocol):
    @property
    def waiting(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def oldest(self) -> float | None: ...
    @property
    def apart(self) -> int: ...
    @property
    def quota(self) -> int: ...
    @property
    def trouble(self) -> object: ...


class WebhookMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "inboxd_webhook_requests",
            "Requests by outcome; failed: by a fault of the receiver.",
            ("source", "outcome"),
            registry=registry,
        )
        self._refused = Counter(
            "inboxd_webhook_refused",
            "Requests that were not accepted, by reason; a request that its sender does not "
            "repeat is lost.",
            ("source", "reason"),
            registry=registry,
        )
        self._commit = Histogram(
            "inboxd_webhook_commit_duration_seconds",
            "Time of writing a page of receipts, with its commit.",
            buckets=_COMMIT_BUCKETS,
            registry=registry,
        )
        self._page = Histogram(
            "inboxd_webhook_page_receipts",
            "Receipts that shared one commit.",
            buckets=_PAGE_BUCKETS,
            registry=registry,
        )
        self._in_flight = Gauge(
            "inboxd_webhook_in_flight_requests",
            "Requests that are being answered.",
            registry=registry,
        )
        self._in_flight_bytes = Gauge(
            "inboxd_webhook_in_flight_bytes",
            "Bytes of request bodies in memory.",
            registry=registry,
        )
        self._success = Gauge(
            "inboxd_webhook_last_success_timestamp_seconds",
            "Time of the last request that was answered with a success.",
            ("source",),
            registry=registry,
        )
        self._held = Gauge(
            "inboxd_webhook_held_receipts",
            "Receipts of a paused source that wait to become events, counted up to 10,000.",
            ("source",),
            registry=registry,
        )
        self._held_since = Gauge(
            "inboxd_webhook_held_since_timestamp_seconds",
            "Time at which the oldest held receipt of a source was received.",
            ("source",),
            registry=registry,
        )
        self._spooled = Gauge(
            "inboxd_webhook_spool_receipts",
            "Receipts that wait in this process's spool for the database.",
            registry=registry,
        )
        self._spool_bytes = Gauge(
            "inboxd_webhook_spool_bytes",
            "Bytes of this process's spool, including drained receipts that are not removed yet.",
            registry=registry,
        )
        self._spool_quota = Gauge(
            "inboxd_webhook_spool_quota_bytes",
            "Maximum bytes of this process's spool; beyond it webhooks are answered 503.",
            registry=registry,
        )
        self._spool_oldest = Gauge(
            "inboxd_webhook_spool_oldest_timestamp_seconds",
            "Approximate time at which the oldest receipt of this process's spool was received; "
            "0: the spool is empty.",
            registry=registry,
        )
        self._spool_apart = Gauge(
            "inboxd_webhook_spool_set_apart",
            "Damaged, refused and too old receipts on this host that an operator must look at.",
            registry=registry,
        )
        self._spool_broken = Gauge(
            "inboxd_webhook_spool_broken",
            "1 after an error of the spool's disk: the spool accepts nothing more.",
            registry=registry,
        )
        self._outcomes: dict[tuple[str, str], Counter] = {}
        self._last: dict[str, float] = {}

    def declare(self, sources: Iterable[str]) -> None:
        """Show these sources from 0 on."""
        for source in sources:
            for outcome in OUTCOMES:
                self._outcome(source, outcome)
            for reason in REASONS:
                self._refused.labels(source, reason)

    def watch(self, requests: Callable[[], float], size: Callable[[], float]) -> None:
        """Show requests and bytes in flight, read at each scrape."""
        self._in_flight.set_function(requests)
        self._in_flight_bytes.set_function(size)

    def watch_spool(self, state: Callable[[], SpoolGauges]) -> None:
        self._spooled.set_function(lambda: state().waiting)
        self._spool_bytes.set_function(lambda: state().bytes)
        self._spool_quota.set_function(lambda: state().quota)
        self._spool_oldest.set_function(lambda: state().oldest or 0)
        self._spool_apart.set_function(lambda: state().apart)
        self._spool_broken.set_function(lambda: state().trouble is not None)

    def show_held(self, held: Iterable[tuple[str, int, datetime]]) -> None:
        """Replace the held receipts: (source, receipts, since when)."""
        self._held.clear()
        self._held_since.clear()
        for source, receipts, since in held:
            self._held.labels(source).set(receipts)
            self._held_since.labels(source).set(since.timestamp())

    def accepted(self, source: str, outcome: str) -> None:
        (self._outcomes.get((source, outcome)) or self._outcome(source, outcome)).inc()
        if source not in self._last:
            self._success.labels(source).set_function(lambda: self._last[source])
        self._last[source] = time.time()

    def refused(self, source: str, reason: str) -> None:
        self._outcome(source, "refused").inc()
        self._refused.labels(source, reason).inc()

    def failed(self, source: str) -> None:
        """Count a request that failed in the receiver itself."""
        self._outcome(source, "failed").inc()

    def written(self, receipts: int, seconds: float) -> None:
        self._page.observe(receipts)
        self._commit.observe(seconds)

    def _outcome(self, source: str, outcome: str) -> Counter:
        child = self._outcomes[source, outcome] = self._requests.labels(source, outcome)
        return child
