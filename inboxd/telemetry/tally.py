"""The tally: what the processors count for each row, at the price of three list appends.

Owns the per-row counts, durations and latencies, and shows them twice: to Prometheus (it is a
collector) and as rows of the `stats` table. Promises that `add` costs well under a microsecond, so
that 60,000 rows/s can afford it, and that its memory is bounded: types come from producers, so
beyond `MAX_SERIES` new ones, besides those that are declared, are counted together as `(other)`.
Known limits: it belongs to the event loop's thread; a page counts in the minute in which it is
folded; statistics that nobody drains are dropped, oldest minute first.
"""

import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import add as plus
from typing import Literal, NamedTuple, get_args

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

Kind = Literal["event", "command"]
Outcome = Literal["succeeded", "retried", "deferred", "failed", "cancelled"]

# What an execution follows: a failed attempt, an operator's replay, or nothing: it is the first.
After = Literal["", "retry", "replay"]
REPROCESSED: tuple[After, ...] = ("retry", "replay")

MAX_SERIES = 2000
MAX_UNFOLDED = 10_000
MAX_STATISTICS = 50_000
OTHER = "(other)"

# From a no-op to the default timeout of a command and beyond, in seconds.
DURATION_BUCKETS = (
    *(0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
# From a wake-up to a day's backlog, in seconds.
LATENCY_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
    *(2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21600.0, 86400.0),
)


class Statistic(NamedTuple):
    """One row for the `stats` table: what happened in one minute (UTC); times in seconds.

    outcome: of executions, with the time of their handlers; of those that followed a failure once
    more, such as `failed after retry`; or `completed`: what succeeded, with the time since its
    creation.
    """

    minute: datetime
    kind: Kind
    type: str
    outcome: str
    rows: int
    total: float
    maximum: float


class _Key(NamedTuple):
    kind: Kind
    queue: str
    type: str
    outcome: Outcome


class _Histogram:
    """Cumulative bucket counts, as Prometheus shows them."""

    __slots__ = ("bounds", "counts", "size", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * len(bounds)
        self.size = 0
        self.total = 0.0

    def fold(self, ordered: list[float], total: float) -> None:
        for index, bound in enumerate(self.bounds):
            self.counts[index] += bisect_right(ordered, bound)
        self.size += len(ordered)
        self.total += total

    def buckets(self) -> list[tuple[str, float]]:
        shown = [(str(bound), float(n)) for bound, n in zip(self.bounds, self.counts, strict=True)]
        return [*shown, ("+Inf", float(self.size))]


_Samples = tuple[list[float], list[float], list[float]]


class Tally(Collector):
    """Counts of handled rows; `add` for each row, `fold` for each page."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Count from nothing; `clock` gives seconds since the epoch."""
        self._clock = clock
        self._unfolded = 0
        self._samples: dict[tuple[Kind, str, str, Outcome, After], _Samples] = {}
        self._rows: Counter[_Key] = Counter()
        # How many of them are declared: those are as many as there are handlers.
        self._declared = 0
        self._failures: Counter[tuple[str, str, str]] = Counter()
        self._durations: dict[tuple[str, str], _Histogram] = defaultdict(
            lambda: _Histogram(DURATION_BUCKETS)
        )
        self._latencies: dict[tuple[str, str], _Histogram] = defaultdict(
            lambda: _Histogram(LATENCY_BUCKETS)
        )
        self._completions: dict[tuple[str, str, str], _Histogram] = defaultdict(
            lambda: _Histogram(LATENCY_BUCKETS)
        )
        # Executions of what had failed before, by kind, type, what they follow, and outcome.
        self._reprocessed: Counter[tuple[str, str, After, Outcome]] = Counter()
        self._statistics: dict[tuple[datetime, Kind, str, str], tuple[int, float, float]] = {}

    def declare(self, kind: Kind, type: str, queue: str = "") -> None:
        """Show a type from 0 on: a counter that is born at 1 has, to Prometheus, never grown."""
        for outcome in get_args(Outcome):
            key = _Key(kind, queue, type, outcome)
            self._declared += key not in self._rows
            self._rows.setdefault(key, 0)
            for after in REPROCESSED:
                self._reprocessed.setdefault((kind, type, after, outcome), 0)

    def add(
        self,
        kind: Kind,
        type: str,
        outcome: Outcome,
        duration: float,
        latency: float,
        queue: str = "",
        age: float = 0.0,
        after: After = "",
    ) -> None:
        """Count one execution; times in seconds.

        duration: of the handler. latency, age: since it was due, and since its creation, at the
        claim.
        """
        key = (kind, queue, type, outcome, after)
        samples = self._samples.get(key)
        if samples is None:
            samples = self._samples[key] = ([], [], [])
        samples[0].append(duration)
        samples[1].append(latency)
        samples[2].append(age)
        self._unfolded += 1
        if self._unfolded >= MAX_UNFOLDED:
            self.fold()

    def fail(self, kind: Kind, type: str, error: str) -> None:
        """Count one failed execution by the class of its exception."""
        key = (kind, type, error)
        if key not in self._failures and len(self._failures) >= MAX_SERIES:
            key = (kind, OTHER, OTHER)
        self._failures[key] += 1

    def fold(self) -> None:
        """Take what was added into the totals; once a page."""
        samples, self._samples, self._unfolded = self._samples, {}, 0
        now = datetime.fromtimestamp(self._clock(), UTC).replace(second=0, microsecond=0)
        for (kind, queue, type_, outcome, after), (durations, latencies, ages) in samples.items():
            key = self._bounded(_Key(kind, queue, type_, outcome))
            if key.outcome == "succeeded":
                self._fold_completions(key, durations, ages, now)
            self._fold_series(key, durations, latencies, now)
            if after:
                self._reprocessed[key.kind, key.type, after, key.outcome] += len(durations)
                self._note(now, key, f"{key.outcome} after {after}", len(durations), 0.0, 0.0)
        self._drop_oldest()

    def _bounded(self, key: _Key) -> _Key:
        known = key in self._rows or len(self._rows) - self._declared < MAX_SERIES
        return key if known else key._replace(type=OTHER, queue=OTHER if key.queue else "")

    def _fold_completions(
        self, key: _Key, durations: list[float], ages: list[float], minute: datetime
    ) -> None:
        took = sorted(map(plus, durations, ages))
        # Clocks of two machines may disagree by more than it took.
        total = max(0.0, sum(took))
        self._completions[key.kind, key.queue, key.type].fold(took, total)
        self._note(minute, key, "completed", len(took), total, max(0.0, took[-1]))

    def _fold_series(
        self, key: _Key, durations: list[float], latencies: list[float], minute: datetime
    ) -> None:
        durations.sort()
        latencies.sort()
        spent = sum(durations)
        self._rows[key] += len(durations)
        self._durations[key.kind, key.type].fold(durations, spent)
        self._latencies[key.kind, key.queue].fold(latencies, max(0.0, sum(latencies)))
        self._note(minute, key, key.outcome, len(durations), spent, durations[-1])

    def _note(
        self,
        minute: datetime,
        key: _Key,
        outcome: str,
        count: int,
        total: float,
        maximum: float,
    ) -> None:
        """Add to a row of the `stats` table."""
        at = (minute, key.kind, key.type, outcome)
        old = self._statistics.get(at, (0, 0.0, 0.0))
        self._statistics[at] = (old[0] + count, old[1] + total, max(old[2], maximum))

    def _drop_oldest(self) -> None:
        while len(self._statistics) > MAX_STATISTICS:
            del self._statistics[next(iter(self._statistics))]

    def drain_statistics(self) -> list[Statistic]:
        """Give what was counted since the last drain, and forget it."""
        self.fold()
        drained, self._statistics = self._statistics, {}
        return [Statistic(*key, *values) for key, values in drained.items()]

    def restore_statistics(self, rows: Iterable[Statistic]) -> None:
        """Take back rows that could not be written, so that the next drain has them."""
        newer, self._statistics = self._statistics, {}
        for row in rows:
            self._statistics[row[:4]] = row[4:]
        for at, (count, total, maximum) in newer.items():
            old = self._statistics.get(at, (0, 0.0, 0.0))
            self._statistics[at] = (old[0] + count, old[1] + total, max(old[2], maximum))
        self._drop_oldest()

    def describe(self) -> Iterator[Metric]:
        """Name the metrics without their values, as the registry asks at registration."""
        counters, histograms = _families()
        yield from (*counters.values(), *histograms.values())

    def collect(self) -> Iterator[Metric]:
        """Show the totals to Prometheus."""
        self.fold()
        counters, histograms = _families()
        for key, rows in self._rows.items():
            queue = [] if key.kind == "event" else [key.queue]
            counters[f"{key.kind}s"].add_metric([*queue, key.type, key.outcome], rows)
        for labels, attempts in _attempts(self._rows).items():
            counters["attempts"].add_metric(labels, attempts)
        for failure, count in self._failures.items():
            counters["failures"].add_metric(failure, count)
        for labels, histogram in self._durations.items():
            histograms["duration"].add_metric(labels, histogram.buckets(), histogram.total)
        for reprocessed, count in self._reprocessed.items():
            counters["reprocessed"].add_metric(reprocessed, count)
        for lane, histogram in self._completions.items():
            histograms["completion"].add_metric(lane, histogram.buckets(), histogram.total)
        for (kind, name), histogram in self._latencies.items():
            queue = [] if kind == "event" else [name]
            histograms[kind].add_metric(queue, histogram.buckets(), histogram.total)
        yield from (*counters.values(), *histograms.values())


def _attempts(rows: Mapping[_Key, int]) -> Counter[tuple[str, str]]:
    spent: Counter[tuple[str, str]] = Counter()
    for key, count in rows.items():
        if key.outcome != "deferred":  # a deferral spends no attempt (design, section 2)
            spent[key.kind, key.type] += count
    return spent


def _families() -> tuple[dict[str, CounterMetricFamily], dict[str, HistogramMetricFamily]]:
    counter, histogram = CounterMetricFamily, HistogramMetricFamily
    counters = {
        "events": counter(
            "inboxd_events", "Executed events by outcome.", labels=["type", "outcome"]
        ),
        "commands": counter(
            "inboxd_commands",
            "Executed commands by outcome.",
            labels=["queue", "type", "outcome"],
        ),
        "attempts": counter(
            "inboxd_attempts",
            "Executions that spent an attempt: all but deferrals.",
            labels=["kind", "type"],
        ),
        "reprocessed": counter(
            "inboxd_reprocessed",
            "Executions of rows that had failed before, by what they follow and by outcome.",
            labels=["kind", "type", "after", "outcome"],
        ),
        "failures": counter(
            "inboxd_failures",
            "Failed executions by the class of the exception.",
            labels=["kind", "type", "error"],
        ),
    }
    histograms = {
        "duration": histogram(
            "inboxd_handler_duration_seconds", "Time that handlers took.", labels=["kind", "type"]
        ),
        "completion": histogram(
            "inboxd_completion_duration_seconds",
            "Time from a row's creation to its success.",
            labels=["kind", "queue", "type"],
        ),
        "event": histogram(
            "inboxd_event_wait_duration_seconds",
            "Time from when an event is due to the start of its handler.",
            labels=[],
        ),
        "command": histogram(
            "inboxd_command_wait_duration_seconds",
            "Time from when a command is due to the start of its handler.",
            labels=["queue"],
        ),
    }
    return counters, histograms
