"""The tally: counts of handled rows, at the price of three list appends for each.

Promises that `add` costs well under a microsecond, so that 60,000 rows/s can afford it, and that
its memory is bounded: beyond `MAX_SERIES` undeclared types, further types are counted together as
`(other)`; so are lanes that are new after as many between two drains, and tenants without a place.
Known limits: it belongs to the event loop's thread; a row counts when it is folded, some seconds
later; statistics that are not drained are dropped, the oldest first.
"""

import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import add as plus
from typing import Literal, NamedTuple, get_args

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from inboxd.model.durations import Durations

Kind = Literal["event", "command"]
Outcome = Literal["succeeded", "retried", "deferred", "failed", "cancelled"]

# The cause of an execution: a failed attempt, a replay, or "": it is the first.
After = Literal["", "retry", "replay"]
REPROCESSED: tuple[After, ...] = ("retry", "replay")

MAX_SERIES = 2000
MAX_UNFOLDED = 4_000
MAX_STATISTICS = 50_000
# The most new tenants between two drains.
MAX_NEW_TENANTS = 100
# Seconds that share a row for the database; a minute, once it could not be written.
PERIOD = 5.0
WAITING_PERIOD = 60.0
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


class StatisticKey(NamedTuple):
    """The key of a count. counted_at: by the tally's clock; lane: the topic, or the queue."""

    counted_at: float
    kind: Kind
    lane: str
    type: str
    outcome: str
    after: After
    tenant: str | None


class Statistic(NamedTuple):
    """wait: since they were due. completion: from creation to success. None: no executions."""

    key: StatisticKey
    rows: int
    run: Durations | None = None
    wait: Durations | None = None
    completion: Durations | None = None


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


class _Sums:
    __slots__ = ("completion", "rows", "run", "wait")

    def __init__(self) -> None:
        self.rows = 0
        self.run = Durations()
        self.wait = Durations()
        self.completion = Durations()

    def add(self, other: "Statistic | _Sums") -> None:
        self.rows += other.rows
        self.run.add(other.run or Durations())
        self.wait.add(other.wait or Durations())
        self.completion.add(other.completion or Durations())


_Samples = tuple[list[float], list[float], list[float]]


class Tally(Collector):
    """Counts of handled rows; `add` counts each, and reading or draining folds them into totals."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, most_tenants: int = MAX_NEW_TENANTS
    ) -> None:
        """Start at zero; `clock` gives seconds, and is never set."""
        self.clock = clock
        self._unfolded = 0
        self._samples: dict[tuple[Kind, str, str, Outcome, After, str | None], _Samples] = {}
        self._tenants: set[str] = set()
        self.limit_tenants(most_tenants)
        self._rows: Counter[_Key] = Counter()
        # The number of declared series, which the number of handlers bounds.
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
        # Durations of stories, for rows that ended a branch of one, by kind and type.
        self._stories: dict[tuple[str, str], _Histogram] = defaultdict(
            lambda: _Histogram(LATENCY_BUCKETS)
        )
        self._ended: dict[tuple[Kind, str], list[float]] = {}
        # Executions of rows that had failed, by kind, type, cause, and outcome.
        self._reprocessed: Counter[tuple[str, str, After, Outcome]] = Counter()
        self._statistics: dict[StatisticKey, _Sums] = {}
        # The lanes of statistics, each with a type.
        self._lanes: set[tuple[str, str]] = set()

    def limit_tenants(self, most: int) -> None:
        self.most_tenants = most
        self._room = min(most, MAX_NEW_TENANTS)

    def admit_tenants(self, admitted: Collection[str]) -> None:
        """Keep the tenants that the fleet counts by name."""
        self._tenants = set(admitted)
        room = max(0, self.most_tenants - len(self._tenants))
        self._room = len(self._tenants) + min(room, MAX_NEW_TENANTS)

    def declare(self, kind: Kind, type: str, queue: str = "") -> None:
        """Show a type from 0 on: for Prometheus, a counter that begins at 1 has never grown."""
        for outcome in get_args(Outcome):
            key = _Key(kind, queue, type, outcome)
            self._declared += key not in self._rows
            self._rows.setdefault(key, 0)
            for after in REPROCESSED:
                self._reprocessed.setdefault((kind, type, after, outcome), 0)

    def add(  # noqa: PLR0913, PLR0917 - an object for each row would cost more
        self,
        kind: Kind,
        type: str,
        outcome: Outcome,
        duration: float,
        latency: float,
        lane: str = "",
        age: float = 0.0,
        after: After = "",
        tenant: str | None = None,
    ) -> None:
        """Times in seconds. latency, age: at the claim, since it was due and was created."""
        if tenant is not None and tenant not in self._tenants:
            tenant = self.place_of(tenant)
        key = (kind, lane, type, outcome, after, tenant)
        samples = self._samples.get(key)
        if samples is None:
            samples = self._samples[key] = ([], [], [])
        samples[0].append(duration)
        samples[1].append(latency)
        samples[2].append(age)
        self._unfolded += 1
        if self._unfolded >= MAX_UNFOLDED:
            self.fold()

    def place_of(self, tenant: str | None) -> str | None:
        """The name under which a tenant is counted: its own, or `(other)` if it gets no place."""
        if tenant is None or tenant in self._tenants:
            return tenant
        if tenant != OTHER and len(self._tenants) < self._room:
            self._tenants.add(tenant)
            return tenant
        return OTHER if self.most_tenants else None

    def end_story(self, kind: Kind, type: str, seconds: float) -> None:
        """Count a row that succeeded without further rows, `seconds` after its story began."""
        ended = self._ended.setdefault((kind, type), [])
        ended.append(seconds)
        if len(ended) >= MAX_UNFOLDED:
            self._fold_stories()

    def _fold_stories(self) -> None:
        ended, self._ended = self._ended, {}
        for (kind, type_), seconds in ended.items():
            known = (kind, type_) in self._stories or len(self._stories) < MAX_SERIES
            seconds.sort()
            self._stories[kind, type_ if known else OTHER].fold(seconds, sum(seconds))

    def fail(self, kind: Kind, type: str, error: str) -> None:
        """Count one failed execution by the class of its exception."""
        key = (kind, type, error)
        if key not in self._failures and len(self._failures) >= MAX_SERIES:
            key = (kind, OTHER, OTHER)
        self._failures[key] += 1

    def fold(self) -> None:
        samples, self._samples, self._unfolded = self._samples, {}, 0
        now = self.clock()
        counted_at = now - now % PERIOD
        for (kind, lane, type_, outcome, after, tenant), each in samples.items():
            durations, latencies, ages = each
            key = self._bounded(_Key(kind, lane if kind == "command" else "", type_, outcome))
            place = self._lane_of(key.queue if kind == "command" else lane, key.type)
            at = StatisticKey(counted_at, kind, place, key.type, outcome, after, tenant)
            sums = self._statistics.get(at)
            if sums is None:
                sums = self._statistics[at] = _Sums()
            sums.rows += len(durations)
            if outcome == "succeeded":
                self._fold_completions(key, durations, ages, sums)
            self._fold_series(key, durations, latencies, sums)
            if after:
                self._reprocessed[kind, key.type, after, outcome] += len(durations)
        self._fold_stories()
        self._drop_oldest()

    def _bounded(self, key: _Key) -> _Key:
        known = key in self._rows or len(self._rows) - self._declared < MAX_SERIES
        return key if known else key._replace(type=OTHER, queue=OTHER if key.queue else "")

    def _lane_of(self, lane: str, type: str) -> str:
        if (lane, type) not in self._lanes:
            if len(self._lanes) >= MAX_SERIES:
                return OTHER
            self._lanes.add((lane, type))
        return lane

    def _fold_completions(
        self, key: _Key, durations: list[float], ages: list[float], sums: _Sums
    ) -> None:
        took = sorted(map(plus, durations, ages))
        # Clocks of two machines may differ by more than the duration.
        total = max(0.0, sum(took))
        self._completions[key.kind, key.queue, key.type].fold(took, total)
        sums.completion.fold(took, total)

    def _fold_series(
        self, key: _Key, durations: list[float], latencies: list[float], sums: _Sums
    ) -> None:
        durations.sort()
        latencies.sort()
        spent, waited = sum(durations), max(0.0, sum(latencies))
        self._rows[key] += len(durations)
        self._durations[key.kind, key.type].fold(durations, spent)
        self._latencies[key.kind, key.queue].fold(latencies, waited)
        sums.run.fold(durations, spent)
        sums.wait.fold(latencies, waited)

    def _drop_oldest(self) -> None:
        while len(self._statistics) > MAX_STATISTICS:
            del self._statistics[next(iter(self._statistics))]

    def drain_statistics(self) -> list[Statistic]:
        """Return the counts since the last drain, and reset them."""
        self.fold()
        drained, self._statistics = self._statistics, {}
        self._lanes.clear()
        return [
            Statistic(key, each.rows, each.run, each.wait, each.completion)
            for key, each in drained.items()
        ]

    def restore_statistics(self, statistics: Iterable[Statistic]) -> None:
        """Take back statistics that could not be written, grouped by minute, for the next drain."""
        newer, self._statistics = self._statistics, {}
        for each in statistics:
            counted_at = each.key.counted_at - each.key.counted_at % WAITING_PERIOD
            self._restore(each.key._replace(counted_at=counted_at), each)
        for key, sums in newer.items():
            self._restore(key, sums)
        self._drop_oldest()

    def _restore(self, key: StatisticKey, counted: Statistic | _Sums) -> None:
        sums = self._statistics.get(key)
        if sums is None:
            sums = self._statistics[key] = _Sums()
        sums.add(counted)

    def describe(self) -> Iterator[Metric]:
        counters, histograms = _families()
        yield from (*counters.values(), *histograms.values())

    def collect(self) -> Iterator[Metric]:
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
        for story, histogram in self._stories.items():
            histograms["story"].add_metric(story, histogram.buckets(), histogram.total)
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
            "Executions of rows that had failed before, by cause (retry or replay) and by outcome.",
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
            "inboxd_handler_duration_seconds", "Time of handlers.", labels=["kind", "type"]
        ),
        "completion": histogram(
            "inboxd_completion_duration_seconds",
            "Time from a row's creation to its success.",
            labels=["kind", "queue", "type"],
        ),
        "story": histogram(
            "inboxd_story_duration_seconds",
            "Time from a story's beginning (a webhook's reception, a producer's row) to the "
            "success of a row that created no further rows, by the type of that row.",
            labels=["kind", "type"],
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
