"""Metrics: all numbers that the daemon shows to Prometheus, on its own registry.

`make docs` writes `docs/reference/metrics.md` from them. Promises bounded label values. Known
limit: numbers for each row are in the tally, as `inc()` and `observe()` cost more than a no-op
event.
"""

import platform
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector
from prometheus_client.registry import RestrictedRegistry

from inboxd.telemetry.messages import MessageMetrics
from inboxd.telemetry.relays import RelayMetrics
from inboxd.telemetry.samples import SampleMetrics
from inboxd.telemetry.statement import StatementMetrics
from inboxd.telemetry.tally import OTHER, Tally
from inboxd.telemetry.webhooks import WebhookMetrics

MAX_LANES = 500
_PARTITIONED = ("events_history", "commands_history", "bodies")

_STEP_BUCKETS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
_ROW_BUCKETS = (0, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
_CHUNK_BUCKETS = (1, 2, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 100_000, 1_000_000)


class EventBacklog(NamedTuple):
    """A label is empty if rows are not counted by it; rows: None if other entries count them.

    age: seconds of the oldest due event, unless its lane is paused. breaker: the open breaker that
    stops them.
    """

    topic: str
    type: str
    state: str
    rows: int | None
    age: float | None
    breaker: str | None = None


class CommandBacklog(NamedTuple):
    queue: str
    type: str
    priority: str
    state: str
    rows: int | None
    age: float | None
    breaker: str | None = None


_LEFT_OUT = "_created"


class _Registry(CollectorRegistry):
    """Leaves out the series `…_created`, which the client adds to each counter and histogram."""

    def collect(self) -> Iterator[Metric]:
        for family in super().collect():
            family.samples = [s for s in family.samples if not s.name.endswith(_LEFT_OUT)]
            yield family

    def restricted_registry(self, names: Iterable[str]) -> RestrictedRegistry:
        return super().restricted_registry(name for name in names if not name.endswith(_LEFT_OUT))


class Metrics:
    def __init__(self, version: str) -> None:
        self.registry = _Registry()
        self.tally = Tally()
        self.registry.register(self.tally)
        ProcessCollector(registry=self.registry)
        self._make_waiting()
        self._make_breakers()
        self._make_endpoints()
        self._make_pages()
        self._make_lines()
        self._make_care()
        self._make_dedup()
        self._make_growth()
        self.statement = StatementMetrics(self.registry)
        self._make_process(version)
        self.webhooks = WebhookMetrics(self.registry)
        self.relays = RelayMetrics(self.registry)
        self.messages = MessageMetrics(self.registry)
        self.samples = SampleMetrics(self.registry)

    def declare(
        self,
        events: Iterable[str],
        commands: Mapping[str, str],
        topics: Iterable[str],
        schedules: Iterable[str],
    ) -> None:
        """Show names from 0 on: Prometheus sees no increase in a series that begins at 1."""
        for type_ in events:
            self.tally.declare("event", type_)
        for type_, queue in commands.items():
            self.tally.declare("command", type_, queue)
        for topic in topics:
            self._declared.add(topic)
            self.duplicates.labels(topic)
            self.dedup_conflicts.labels(topic)
        for schedule in schedules:
            for outcome in ("sent", "skipped", "failed"):
                self.schedule_runs.labels(schedule, outcome)

    def _make_waiting(self) -> None:
        self.event_backlog = self._gauge(
            "inboxd_event_backlog_rows", "Unsettled events.", *EventBacklog._fields[:-3]
        )
        self.event_age = self._gauge(
            "inboxd_event_backlog_age_seconds",
            "How long the oldest due event has waited, without events that are paused or wait for "
            "an open breaker.",
            *EventBacklog._fields[:-3],
        )
        self.kept_age = self._gauge(
            "inboxd_kept_event_age_seconds",
            "How long the oldest event that no living worker handles has been due.",
            *("topic", "type"),
        )
        self.command_backlog = self._gauge(
            "inboxd_command_backlog_rows", "Unsettled commands.", *CommandBacklog._fields[:-3]
        )
        self.command_age = self._gauge(
            "inboxd_command_backlog_age_seconds",
            "How long the oldest due command has waited, without commands that are paused or wait "
            "for an open breaker.",
            *CommandBacklog._fields[:-3],
        )
        self.ignored = self._counter(
            "inboxd_events_ignored",
            "Events without a living worker that handles them, which the settings dismiss.",
            "type",
        )
        self._ignored: set[str] = set()
        self.blocked_keys = self._gauge(
            "inboxd_blocked_keys",
            "Ordering keys whose due commands wait behind a dead letter or a retry.",
            *("queue", "held_by"),
        )
        self.blocked_age = self._gauge(
            "inboxd_blocked_key_age_seconds",
            "How long the oldest command behind a blocked key has been due.",
            *("queue", "held_by"),
        )
        self.held_back = self._counter(
            "inboxd_queue_held_back",
            "Claims that took no command of a queue: its total_concurrency was reached (full), or "
            "its rate, or another claim held it or its keys (busy); and commands that were "
            "released since another command of their key had just started (key rate).",
            *("queue", "reason"),
        )
        self.paused = self._gauge(
            "inboxd_paused",
            "Types, topics, queues, schedules and sources of webhooks that are paused.",
            "kind",
        )

    def _make_breakers(self) -> None:
        self.breaker_state = self._gauge(
            "inboxd_breaker_state",
            "Calls that a breaker lets pass: 0 all (closed), 1 a few probes (half-open), 2 none "
            "(open).",
            "name",
        )
        self.breaker_forced = self._gauge(
            "inboxd_breaker_forced", "1 while an operator forces a breaker open or closed.", "name"
        )
        self.breaker_age = self._gauge(
            "inboxd_breaker_backlog_age_seconds",
            "How long the oldest due row that waits for an open breaker has waited.",
            "name",
        )
        self.breaker_transitions = self._counter(
            "inboxd_breaker_transitions",
            "Transitions of a breaker that this worker made, by the new state.",
            *("name", "to"),
        )
        self.breaker_calls = self._counter(
            "inboxd_breaker_calls",
            "Calls that a breaker counted: succeeded, failed, or slow.",
            *("name", "outcome"),
        )
        self.breaker_rejected = self._counter(
            "inboxd_breaker_rejected",
            "Calls of handlers that an open breaker refused (ctx.breaker).",
            "name",
        )
        self.breaker_fallbacks = self._counter(
            "inboxd_breaker_fallbacks",
            "Commands that a breaker replaced by its fallback.",
            "name",
        )

    def _make_endpoints(self) -> None:
        self.deliveries = self._counter(
            "inboxd_webhook_deliveries",
            "Attempts to deliver a webhook: succeeded, or failed.",
            *("endpoint", "outcome"),
        )
        self.endpoint_failure_age = self._gauge(
            "inboxd_endpoint_failure_age_seconds",
            "How long an endpoint has accepted no webhook; 0: it accepts them.",
            "endpoint",
        )
        self.endpoints_disabled = self._counter(
            "inboxd_endpoints_disabled",
            "Endpoints that this worker disabled: after failures, or after the answer 410 (gone).",
            *("endpoint", "by"),
        )

    def _make_pages(self) -> None:
        self.wakeups = self._counter(
            "inboxd_wakeups",
            "Wake-ups of a processor to look for rows, by cause: notify, poll, timer, sweep or "
            "reconnect.",
            *("kind", "cause"),
        )
        self.claim_duration = self._histogram(
            "inboxd_claim_duration_seconds", "Time of a claim.", _STEP_BUCKETS, "kind"
        )
        self.page_rows = self._histogram(
            "inboxd_page_rows", "Rows that a claim returned.", _ROW_BUCKETS, "kind"
        )
        self.in_flight = self._gauge(
            "inboxd_in_flight", "Rows that this worker is handling.", "kind"
        )
        self.settle_duration = self._histogram(
            "inboxd_settle_duration_seconds",
            "Time of writing the outcomes of a page.",
            _STEP_BUCKETS,
            "kind",
        )

    def _make_lines(self) -> None:
        self.blocked_lines = self._gauge(
            "inboxd_blocked_lines",
            "Ordering keys of sequential topics that are blocked: by a dead letter, a retry, or an "
            "event that no living worker handles.",
            *("topic", "held_by"),
        )
        self.blocked_line_age = self._gauge(
            "inboxd_blocked_line_age_seconds",
            "Time since the first of the blocked ordering keys was blocked.",
            *("topic", "held_by"),
        )
        self.held_topics = self._gauge(
            "inboxd_held_topics",
            "Topics whose new events wait until their declaration has taken in the events written "
            "before.",
        )
        self.horizon_duration = self._histogram(
            "inboxd_horizon_duration_seconds",
            "Time of a query for the transactions that may still commit events of sequential or "
            "batch topics.",
            _STEP_BUCKETS,
        )
        self.horizon_buckets = self._gauge(
            "inboxd_horizon_waiting_buckets",
            "Buckets of sequential and batch topics whose next event waits for a producer's open "
            "transaction.",
        )
        self.chunk_events = self._histogram(
            "inboxd_chunk_events",
            "Events in the chunks that were run, with any outcome.",
            _CHUNK_BUCKETS,
            "topic",
        )

    def _make_care(self) -> None:
        self.reaped = self._counter(
            "inboxd_reaped",
            "Dead workers, commands taken back from them, and stalled sessions that were ended.",
            "kind",
        )
        _from_zero(self.reaped, "worker", "command", "session")
        self.crashes = self._counter(
            "inboxd_crashes", "Rows that were in flight when their worker died.", "kind"
        )
        _from_zero(self.crashes, "event", "command")
        self.schedule_runs = self._counter(
            "inboxd_schedule_runs",
            "Runs of schedules that this worker sent, skipped because they were missed, or failed "
            "to send.",
            *("schedule", "outcome"),
        )
        self.schedule_success = self._gauge(
            "inboxd_schedule_last_success_timestamp_seconds",
            "Time of the last run of a schedule that any worker sent.",
            "schedule",
        )
        self.maintenance_success = self._gauge(
            "inboxd_maintenance_last_success_timestamp_seconds",
            "Time when this worker last ran a maintenance task without an error, or first tried "
            "to.",
            "task",
        )
        self.commands_expired = self._counter(
            "inboxd_commands_expired",
            "Commands that were cancelled because they had not started by their expires_at.",
            "queue",
            "type",
        )
        self._expired: set[tuple[str, str]] = set()
        self.batches_expired = self._counter(
            "inboxd_batches_expired", "Open batches that were not closed in time."
        )

    def _make_dedup(self) -> None:
        self.duplicates = self._counter(
            "inboxd_duplicates",
            "Events that were sent again, and not written because of their dedup key.",
            "topic",
        )
        self.dedup_conflicts = self._counter(
            "inboxd_dedup_conflicts",
            "Events that became dead letters, since another event has the same dedup key and "
            "other content.",
            "topic",
        )
        self.dedup_forgotten = self._counter(
            "inboxd_dedup_forgotten", "Dedup keys that were removed after their window."
        )
        self._repeated: set[str] = set()
        self._declared: set[str] = set()

    def _make_growth(self) -> None:
        self.partitions_ahead = self._gauge(
            "inboxd_partitions_ahead",
            "Days after today that have partitions; -1: today has none, and nothing is claimed.",
        )
        self.oldest_partition = self._gauge(
            "inboxd_oldest_partition_age_seconds",
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
        _from_zero(self.partitions_dropped, *_PARTITIONED, "receipts")
        _from_zero(self.export_failures, *_PARTITIONED)
        self.purged = self._counter(
            "inboxd_purged_rows", "Rows that were removed because of their age.", "table"
        )

    def _make_process(self, version: str) -> None:
        self.lease_age = self._gauge(
            "inboxd_lease_age_seconds", "Time since this worker last renewed its lease."
        )
        self.leader = self._gauge(
            "inboxd_leader",
            "1 on the worker that is the leader: it runs the maintenance tasks for all.",
        )
        self.listener_connected = self._gauge(
            "inboxd_listener_connected",
            "1 while this worker listens for notifications; NaN: wakeups.mode is off.",
        )
        self.pool_connections = self._gauge(
            "inboxd_pool_connections", "Connections of a pool by state.", "pool", "state"
        )
        self.hook_calls = self._counter(
            "inboxd_hook_calls",
            "Calls of plugins' hooks; dropped: not made, because hooks were too slow.",
            *("hook", "outcome"),
        )
        for hook in ("on_start", "on_stop", "on_error"):
            for outcome in ("succeeded", "failed", "dropped"):
                self.hook_calls.labels(hook, outcome)
        self.loop_lag = self._histogram(
            "inboxd_loop_lag_seconds",
            "Lateness of the event loop, measured ten times a second.",
            _STEP_BUCKETS,
        )
        self.log_lines_dropped = self._counter(
            "inboxd_log_lines_dropped",
            "Lines that were left out of the log because its reader was too slow.",
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

    def count_expired(self, queue: str, type_: str, count: int = 1) -> None:
        """Count commands that have expired; beyond `MAX_LANES` queues and types as `(other)`."""
        lane = (queue, type_)
        if lane not in self._expired and len(self._expired) >= MAX_LANES:
            lane = (OTHER, OTHER)
        self._expired.add(lane)
        self.commands_expired.labels(*lane).inc(count)

    def show_backlog(self, events: list[EventBacklog], commands: list[CommandBacklog]) -> None:
        kept = [each for each in events if each.state == "kept"]
        late = [each for each in events if each.state != "kept" and not each.breaker]
        due = [each for each in commands if not each.breaker]
        _replace(self.event_backlog, [(each[:-3], each.rows) for each in events])
        _replace(self.event_age, [(each[:-3], each.age) for each in late])
        _replace(self.kept_age, [((each.topic, each.type), each.age or 0.0) for each in kept])
        _replace(self.command_backlog, [(each[:-3], each.rows) for each in commands])
        _replace(self.command_age, [(each[:-3], each.age) for each in due])
        _replace(self.breaker_age, _waiting(*events, *commands))

    def show_schedules(self, sent: Mapping[str, datetime]) -> None:
        _replace(self.schedule_success, [((name,), at.timestamp()) for name, at in sent.items()])

    def show_blocked(self, blocked: Iterable[tuple[str, str, int, float]]) -> None:
        """Replace the shown blocked keys: (queue, held_by, keys, oldest)."""
        _show_blocked(self.blocked_keys, self.blocked_age, blocked)

    def show_partitions(self, tables: Iterable[tuple[str, float, float]]) -> None:
        """Show for each table (name, age of the oldest partition, retention lag), in seconds."""
        for table, age, lag in tables:
            self.oldest_partition.labels(table).set(age)
            self.retention_lag.labels(table).set(lag)

    def hide_partitions(self) -> None:
        """Hide the leader's metrics, when another worker leads."""
        self.oldest_partition.clear()
        self.retention_lag.clear()
        self.statement.hide()

    def show_blocked_lines(self, blocked: Iterable[tuple[str, str, int, float]]) -> None:
        """Replace the shown blocked lines: (topic, held_by, lines, oldest)."""
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
    for value in values:
        counter.labels(value)


def _replace(gauge: Gauge, values: Iterable[tuple[tuple[str, ...], float | None]]) -> None:
    """Show only these values of a gauge, by their labels; None is not shown."""
    gauge.clear()
    for labels, value in values:
        if value is not None:
            gauge.labels(*labels).set(value)


def _waiting(*lanes: EventBacklog | CommandBacklog) -> list[tuple[tuple[str], float]]:
    """The age of the oldest row that waits for each open breaker."""
    ages: dict[str, float] = {}
    for each in lanes:
        if each.breaker and each.age is not None:
            ages[each.breaker] = max(each.age, ages.get(each.breaker, 0.0))
    return [((name,), age) for name, age in ages.items()]


def _show_blocked(keys: Gauge, age: Gauge, blocked: Iterable[tuple[str, str, int, float]]) -> None:
    shown = sorted(blocked, key=lambda each: -each[3])[:MAX_LANES]
    _replace(keys, [((name, held_by), count) for name, held_by, count, _ in shown])
    _replace(age, [((name, held_by), oldest) for name, held_by, _, oldest in shown])
