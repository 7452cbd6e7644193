"""Metrics of relays.

Owns their names, labels and help texts; `docs/metrics.md` is held against them by a test. Promises:
labels have few values: relays and brokers are those of the settings. How far a relay is behind is
told as of any topic.
*See:* `inboxd/events/relays/page.py`, which counts.
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_REASONS = ("unroutable", "refused")


class RelayMetrics:
    """What relays count and measure."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Make all at zero."""
        self._published = Counter(
            "inboxd_relay_published",
            "Events that a broker confirmed; one that is published again counts again.",
            ("relay",),
            registry=registry,
        )
        self._refused = Counter(
            "inboxd_relay_refused",
            "Events that a broker refused, or that make no message; unroutable: nothing takes "
            "what is sent to that place.",
            ("relay", "reason"),
            registry=registry,
        )
        self._lost = Counter(
            "inboxd_relay_lost_pages",
            "Pages of which a broker did not confirm all, since it was away or did not answer.",
            ("relay",),
            registry=registry,
        )
        self._confirms = Histogram(
            "inboxd_relay_confirm_duration_seconds",
            "Time from the first message that was sent together to the last one's confirmation.",
            ("broker",),
            buckets=_BUCKETS,
            registry=registry,
        )

    def declare(self, relays: Iterable[tuple[str, str]]) -> None:
        """Show these relays, each with its broker, from 0 on."""
        for relay, broker in relays:
            self._published.labels(relay)
            self._lost.labels(relay)
            for reason in _REASONS:
                self._refused.labels(relay, reason)
            self._confirms.labels(broker)

    def published(self, relay: str, events: int) -> None:
        """So many were confirmed."""
        if events:
            self._published.labels(relay).inc(events)

    def refused(self, relay: str, *, unroutable: bool) -> None:
        """One was refused."""
        self._refused.labels(relay, _REASONS[0] if unroutable else _REASONS[1]).inc()

    def lost(self, relay: str) -> None:
        """A page was not confirmed to its end."""
        self._lost.labels(relay).inc()

    def confirmed(self, broker: str, seconds: float) -> None:
        """What was sent together is confirmed."""
        self._confirms.labels(broker).observe(seconds)
