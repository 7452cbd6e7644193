"""Metrics of messages from brokers; labels are the sources and brokers of the settings."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

OUTCOMES = ("written", "duplicate", "contradiction", "broken", "passed_over")
STATES = ("reading", "standby", "paused", "away", "failing", "lost")


class MessageMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("source", "broker")
        self._received = Counter(
            "inboxd_messages_received",
            "Messages that a broker delivered; a message that is delivered again counts again.",
            labels,
            registry=registry,
        )
        self._redelivered = Counter(
            "inboxd_messages_redelivered",
            "Received messages that the broker marked as redelivered.",
            labels,
            registry=registry,
        )
        self._events = Counter(
            "inboxd_messages_events",
            "Events of messages by outcome; passed_over: their message was stored before, or "
            "another worker now reads its stream. contradiction and broken: dead letters, which "
            "also count as written.",
            (*labels, "outcome"),
            registry=registry,
        )
        self._unacknowledged = Counter(
            "inboxd_messages_acknowledge_failures",
            "Pages that were stored and could not be acknowledged: the broker delivers their "
            "messages again.",
            labels,
            registry=registry,
        )
        self._store = Histogram(
            "inboxd_messages_store_duration_seconds",
            "Time of storing a page of messages, with its commit.",
            labels,
            buckets=_BUCKETS,
            registry=registry,
        )
        self._lag = Gauge(
            "inboxd_messages_lag",
            "Messages that this worker has not received yet from the streams that it reads; NaN: "
            "unknown, or another worker reads.",
            labels,
            registry=registry,
        )
        self._stored = Gauge(
            "inboxd_messages_last_stored_timestamp_seconds",
            "Time when this worker stored the last page, or began to read if it has stored none; "
            "NaN: this worker does not read.",
            labels,
            registry=registry,
        )
        self._state = Gauge(
            "inboxd_messages_source_state",
            "1 for the state that a source has in this worker. standby: another worker reads it. "
            "away: the broker is unreachable. failing: the database is unreachable, or see the "
            "log. lost: the broker no longer has the messages after the stored position; see "
            "`inboxd messages`.",
            (*labels, "state"),
            registry=registry,
        )

    def of(self, source: str, broker: str) -> "SourceMetrics":
        """The metrics of one source, shown from 0 on."""
        labels = (source, broker)
        return SourceMetrics(
            self._received.labels(*labels),
            self._redelivered.labels(*labels),
            {each: self._events.labels(*labels, each) for each in OUTCOMES},
            self._unacknowledged.labels(*labels),
            self._store.labels(*labels),
            self._lag.labels(*labels),
            self._stored.labels(*labels),
            {each: self._state.labels(*labels, each) for each in STATES},
        )


class SourceMetrics(NamedTuple):
    messages: Counter
    messages_again: Counter
    outcomes: Mapping[str, Counter]
    unacknowledged: Counter
    durations: Histogram
    behind: Gauge
    last: Gauge
    states: Mapping[str, Gauge]

    def received(self, messages: int, redelivered: int) -> None:
        self.messages.inc(messages)
        self.messages_again.inc(redelivered)

    def events(self, **outcomes: int) -> None:
        for outcome, events in outcomes.items():
            self.outcomes[outcome].inc(events)

    def stored(self, seconds: float) -> None:
        self.durations.observe(seconds)
        self.last.set_to_current_time()

    def lag(self, messages: int | None) -> None:
        """Show how many messages the source is behind; None: unknown."""
        self.behind.set(math.nan if messages is None else messages)

    def state(self, state: str) -> None:
        for each, gauge in self.states.items():
            gauge.set(each == state)
        if state == "reading":
            self.last.set_to_current_time()
        else:
            self.last.set(math.nan)
            self.lag(None)
