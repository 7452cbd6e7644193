"""Metrics: every number that the daemon shows to Prometheus, on a registry of its own.

Owns names, units, labels and help texts; `docs/metrics.md` is held against them by a test. Promises
no global registry (two daemons in one test process do not meet) and bounded label values.
Known limit: what is counted for each row lives in the tally, because `inc()` and `observe()` cost
more than a no-op event does.
"""

import platform
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from inboxd.telemetry.tally import OTHER, Kind, Tally

MAX_LANES = 500
_PARTITIONED = ("events_history", "commands_history", "bodies")

_STEP_BUCKETS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
_ROW_BUCKETS = (0, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
_CHUNK_BUCKETS = (1, 2, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 100_000, 1_000_000)


class BacklogSample(NamedTuple):
    """The backlog of one lane and status; `age` of its oldest due row in seconds, if one is due."""

    kind: Kind
    lane: str
    status: str
    rows: int
    age: float | None


class Metrics:
    """The daemon's metrics; parts that measure get this object."""

    def __init__(self, version: str) -> None:
        """Make all metrics at zero; `version` is inboxd's."""
        self.registry = CollectorRegistry()
        self.tally = Tally()
        self.registry.register(self.tally)
        ProcessCollector(registry=self.registry)
        self._make_waiting()
        self._make_pages()
        self._make_lines()
        self._make_care()
        self._make_dedup()
        self._make_growth()
        self._make_process(version)

    def declare(
        self, events: Iterable[str], commands: Mapping[str, str], topics: Iterable[str]
    ) -> None:
        """Show what is declared from 0 on: event types, command types with their queues, topics.

        Prometheus sees no increase in a series that is born at 1: the first would be missed.
        """
        for type_ in events:
            self.tally.declare("event", type_)
        for type_, queue in commands.items():
            self.tally.declare("command", type_, queue)
        for topic in topics:
            self._declared.add(topic)
            self.duplicates.labels(topic)
            self.dedup_conflicts.labels(topic)

    def _make_waiting(self) -> None:
        """What waits, and what holds it back."""
        self.queue_age = self._gauge(
            "inboxd_queue_age_seconds",
            "Age of the oldest due row of a lane, unless it is paused.",
            *("kind", "lane"),
        )
        self.backlog = self._gauge(
            "inboxd_backlog_rows", "Unsettled rows of a lane.", "kind", "lane", "status"
        )
        self.kept_age = self._gauge(
            "inboxd_kept_age_seconds",
            "How long the oldest event of a lane has been due that nobody handles.",
            "lane",
        )
        self.ignored = self._counter(
            "inboxd_events_ignored",
            "Events that nobody handles, and that the settings say to ignore.",
            "type",
        )
        self._ignored: set[str] = set()
        self.blocked_keys = self._gauge(
            "inboxd_blocked_keys",
            "Ordering keys that a dead letter or a retry holds while others stand behind it.",
            *("queue", "held_by"),
        )
        self.blocked_age = self._gauge(
            "inboxd_blocked_key_age_seconds",
            "How long the command has been due that stands behind a blocked key for longest.",
            *("queue", "held_by"),
        )
        self.held_back = self._counter(
            "inboxd_queue_held_back",
            "Claims that could take nothing of a queue: full or rate (its limit over all workers),"
            " or busy (another claim had it, or each key that was asked).",
            *("queue", "reason"),
        )
        self.paused = self._gauge(
            "inboxd_paused", "Types, topics, queues and schedules that are paused.", "kind"
        )

    def _make_pages(self) -> None:
        """What is claimed, handled and settled."""
        self.wakeups = self._counter(
            "inboxd_wakeups",
            "Why a processor looked for rows: notify, poll, timer, sweep or reconnect.",
            *("kind", "cause"),
        )
        self.claim_seconds = self._histogram(
            "inboxd_claim_seconds", "What a claim took.", _STEP_BUCKETS, "kind"
        )
        self.page_rows = self._histogram(
            "inboxd_page_rows", "Rows that a claim returned.", _ROW_BUCKETS, "kind"
        )
        self.in_flight = self._gauge(
            "inboxd_in_flight", "Rows that are being handled here.", "kind"
        )
        self.settle_seconds = self._histogram(
            "inboxd_settle_seconds",
            "What writing the outcomes of a page took.",
            _STEP_BUCKETS,
            "kind",
        )

    def _make_lines(self) -> None:
        """Sequential and batch topics."""
        self.blocked_lines = self._gauge(
            "inboxd_blocked_lines",
            "Ordering keys of sequential topics that stand still behind a dead letter, a retry, or "
            "an event that nobody handles.",
            *("topic", "held_by"),
        )
        self.blocked_line_age = self._gauge(
            "inboxd_blocked_line_age_seconds",
            "How long the first of them stands still.",
            *("topic", "held_by"),
        )
        self.held_topics = self._gauge(
            "inboxd_held_topics",
            "Topics whose arrivals wait until a declaration has taken in what was written before.",
        )
        self.horizon_seconds = self._histogram(
            "inboxd_horizon_seconds",
            "What a look at who may still commit events of sequential or batch topics took.",
            _STEP_BUCKETS,
        )
        self.horizon_buckets = self._gauge(
            "inboxd_horizon_waiting_buckets",
            "Buckets of sequential and batch topics whose next event waits for producers that are "
            "open still.",
        )
        self.chunk_events = self._histogram(
            "inboxd_chunk_events",
            "Events in the chunks that were run, whatever became of them.",
            _CHUNK_BUCKETS,
            "topic",
        )

    def _make_care(self) -> None:
        """What one worker does for all, and for those that died."""
        self.reaped = self._counter(
            "inboxd_reaped",
            "Dead workers, the commands taken back from them, and sessions ended that had stopped.",
            "kind",
        )
        _from_zero(self.reaped, "worker", "command", "session")
        self.crashes = self._counter(
            "inboxd_crashes", "Rows that were in flight when their worker died.", "kind"
        )
        _from_zero(self.crashes, "event", "command")
        self.schedule_runs = self._counter(
            "inboxd_schedule_runs",
            "Runs of schedules that this worker sent, skipped because they were missed, or could "
            "not send.",
            *("schedule", "outcome"),
        )
        self.batches_expired = self._counter(
            "inboxd_batches_expired", "Open batches that nobody closed in time."
        )

    def _make_dedup(self) -> None:
        self.duplicates = self._counter(
            "inboxd_duplicates",
            "Events that were sent again and not written, by the dedup key.",
            "topic",
        )
        self.dedup_conflicts = self._counter(
            "inboxd_dedup_conflicts",
            "Events that are dead letters, since their dedup key is that of one that said "
            "something else.",
            "topic",
        )
        self.dedup_forgotten = self._counter(
            "inboxd_dedup_forgotten", "Dedup keys whose window was over."
        )
        self._repeated: set[str] = set()
        self._declared: set[str] = set()

    def _make_growth(self) -> None:
        self.partitions_ahead = self._gauge(
            "inboxd_partitions_ahead_days",
            "Days after today that have partitions; -1: today has none, and nothing is claimed.",
        )
        self.oldest_partition = self._gauge(
            "inboxd_oldest_partition_seconds",
            "Time since the day of a table's oldest partition ended; shown by the leader.",
            "table",
        )
        self.retention_lag = self._gauge(
            "inboxd_retention_lag_seconds",
            "How long the oldest partition of a table has been kept beyond its retention.",
            "table",
        )
        self.partitions_dropped = self._counter(
            "inboxd_partitions_dropped", "Partitions dropped by retention.", "table"
        )
        self.export_failures = self._counter(
            "inboxd_export_failures",
            "Partitions that could not be exported, and so were not dropped.",
            "table",
        )
        _from_zero(self.partitions_dropped, *_PARTITIONED)
        _from_zero(self.export_failures, *_PARTITIONED)
        self.purged = self._counter(
            "inboxd_purged_rows", "Rows removed because of their age.", "table"
        )

    def _make_process(self, version: str) -> None:
        self.lease_age = self._gauge(
            "inboxd_lease_age_seconds", "Time since this worker last showed that it lives."
        )
        self.leader = self._gauge(
            "inboxd_leader", "1 on the worker that does what one does for all."
        )
        self.listener_connected = self._gauge(
            "inboxd_listener_connected",
            "1 while the listening connection stands; NaN: none is wanted (wakeups.mode).",
        )
        self.pool_connections = self._gauge(
            "inboxd_pool_connections", "Connections of a pool by state.", "pool", "state"
        )
        self.loop_lag = self._histogram(
            "inboxd_loop_lag_seconds",
            "How late the event loop ran what was due, measured ten times a second.",
            _STEP_BUCKETS,
        )
        build = self._gauge(
            "inboxd_build_info", "1, with the versions that run.", "version", "python"
        )
        build.labels(version, platform.python_version()).set(1)

    def count_repeats(self, topic: str, count: int, *, conflict: bool) -> None:
        """Count events that were sent again; beyond `MAX_LANES` topics as `(other)`."""
        if topic not in self._declared | self._repeated:
            topic = OTHER if len(self._repeated) >= MAX_LANES else topic
            self._repeated.add(topic)
        (self.dedup_conflicts if conflict else self.duplicates).labels(topic).inc(count)

    def count_ignored(self, type_: str, count: int) -> None:
        """Count events that were ignored; beyond `MAX_LANES` types as `(other)`."""
        if type_ not in self._ignored and len(self._ignored) >= MAX_LANES:
            type_ = OTHER
        self._ignored.add(type_)
        self.ignored.labels(type_).inc(count)

    def show_lanes(self, lanes: Iterable[BacklogSample]) -> None:
        """Replace the shown backlog; beyond `MAX_LANES` only the fullest lanes are shown."""
        self.backlog.clear()
        self.queue_age.clear()
        self.kept_age.clear()
        ages: dict[tuple[str, str], float] = {}
        for lane in sorted(lanes, key=lambda lane: -lane.rows)[:MAX_LANES]:
            self.backlog.labels(lane.kind, lane.lane, lane.status).set(lane.rows)
            if lane.status == "kept":
                self.kept_age.labels(lane.lane).set(lane.age or 0.0)
            elif lane.age is not None:
                ages[lane.kind, lane.lane] = max(lane.age, ages.get((lane.kind, lane.lane), 0.0))
        for (kind, name), age in ages.items():
            self.queue_age.labels(kind, name).set(age)

    def show_blocked(self, blocked: Iterable[tuple[str, str, int, float]]) -> None:
        """Replace the shown blocked keys: (queue, held_by, keys, oldest)."""
        _show_blocked(self.blocked_keys, self.blocked_age, blocked)

    def show_partitions(self, tables: Iterable[tuple[str, float, float]]) -> None:
        """Show of each table (name, age of the oldest partition, retention lag), in seconds."""
        for table, age, lag in tables:
            self.oldest_partition.labels(table).set(age)
            self.retention_lag.labels(table).set(lag)

    def hide_partitions(self) -> None:
        """Another worker leads, and shows them."""
        self.oldest_partition.clear()
        self.retention_lag.clear()

    def show_blocked_lines(self, blocked: Iterable[tuple[str, str, int, float]]) -> None:
        """Replace the shown lines that stand still: (topic, held_by, lines, oldest)."""
        _show_blocked(self.blocked_lines, self.blocked_line_age, blocked)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)


def _from_zero(counter: Counter, *values: str) -> None:
    """Show a counter of one label, whose values are known, before it counts."""
    for value in values:
        counter.labels(value)


def _show_blocked(keys: Gauge, age: Gauge, blocked: Iterable[tuple[str, str, int, float]]) -> None:
    """Replace what stands still: (lane, held_by, keys, seconds of the oldest)."""
    keys.clear()
    age.clear()
    for lane, held_by, count, oldest in sorted(blocked, key=lambda b: -b[3])[:MAX_LANES]:
        keys.labels(lane, held_by).set(count)
        age.labels(lane, held_by).set(oldest)
