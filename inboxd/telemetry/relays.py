"""Metrics of relays, by relay and broker; a relay's backlog is that of its topic."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_REASONS = ("unroutable", "refused")


class RelayMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._published = Counter(
            "inboxd_relay_published",
            "Events that a broker confirmed; an event that is published again counts again.",
            ("relay",),
            registry=registry,
        )
        self._refused = Counter(
            "inboxd_relay_refused",
            "Events that a broker refused, or that make no valid message; unroutable: their "
            "destination has no receiver.",
            ("relay", "reason"),
            registry=registry,
        )
        self._lost = Counter(
            "inboxd_relay_lost_pages",
            "Pages that a broker did not confirm completely, since it was unreachable or silent.",
            ("relay",),
            registry=registry,
        )
        self._confirms = Histogram(
            "inboxd_relay_confirm_duration_seconds",
            "Time from sending the first message of a group to the confirmation of its last one.",
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
        if events:
            self._published.labels(relay).inc(events)

    def refused(self, relay: str, *, unroutable: bool) -> None:
        self._refused.labels(relay, _REASONS[0] if unroutable else _REASONS[1]).inc()

    def lost(self, relay: str) -> None:
        """Count a page that was not completely confirmed."""
        self._lost.labels(relay).inc()

    def confirmed(self, broker: str, seconds: float) -> None:
        self._confirms.labels(broker).observe(seconds)
