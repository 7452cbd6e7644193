"""The tally: the statistics that it drains, its limits, and its cost for each row."""

import timeit
from dataclasses import dataclass
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from inboxd.model.durations import Durations
from inboxd.telemetry import tally as tally_module
from inboxd.telemetry.tally import OTHER, PERIOD, Statistic, StatisticKey, Tally


@dataclass
class Clock:
    """A clock that the test moves."""

    now: float = 1_203.0

    def __call__(self) -> float:
        return self.now


def of(*seconds: float) -> Durations:
    """The durations of these seconds."""
    found = Durations()
    if seconds:
        found.fold(sorted(seconds), max(0.0, sum(seconds)))
    return found


def key(kind: str, lane: str, type_: str, outcome: str, **more: object) -> StatisticKey:
    """The key of rows that were counted at second 1,200."""
    given = {"counted_at": 1_200.0, "after": "", "tenant": None, **more}
    return StatisticKey(kind=kind, lane=lane, type=type_, outcome=outcome, **given)  # type: ignore[arg-type]


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def test_statistics_are_drained_once_by_lane_with_durations() -> None:
    tally = Tally(Clock())
    for run, wait in ((1.0, 0.25), (3.0, 0.5)):
        tally.add("event", "a", "succeeded", run, wait, "news", 10.0)
    tally.add("command", "a", "failed", 2.0, 0.0, "q")
    tally.add("command", "a", "failed", 4.0, 0.0, "r")
    assert tally.drain_statistics() == [
        Statistic(
            key("event", "news", "a", "succeeded"), 2, of(1.0, 3.0), of(0.25, 0.5), of(11.0, 13.0)
        ),
        Statistic(key("command", "q", "a", "failed"), 1, of(2.0), of(0.0), of()),
        Statistic(key("command", "r", "a", "failed"), 1, of(4.0), of(0.0), of()),
    ]
    assert tally.drain_statistics() == []


def test_reprocessed_rows_are_counted_separately_and_timed_from_creation() -> None:
    tally, registry = Tally(Clock()), CollectorRegistry()
    registry.register(tally)
    tally.declare("command", "a", "q")
    again = {"kind": "command", "type": "a", "after": "replay", "outcome": "succeeded"}
    assert value(registry, "inboxd_reprocessed_total", **again) == 0, "a declared type begins at 0"
    tally.add("command", "a", "succeeded", 1.0, 0.0, "q", 9.0)
    tally.add("command", "a", "succeeded", 2.0, 0.0, "q", 98.0, "replay")
    tally.add("command", "a", "failed", 4.0, 0.0, "q", 500.0, "retry")
    succeeded, failed = key("command", "q", "a", "succeeded"), key("command", "q", "a", "failed")
    assert tally.drain_statistics() == [
        Statistic(succeeded, 1, of(1.0), of(0.0), of(10.0)),
        Statistic(succeeded._replace(after="replay"), 1, of(2.0), of(0.0), of(100.0)),
        Statistic(failed._replace(after="retry"), 1, of(4.0), of(0.0), of()),
    ]
    assert value(registry, "inboxd_reprocessed_total", **again) == 1
    assert value(registry, "inboxd_reprocessed_total", **again | {"after": "retry"}) == 0
    lane = {"kind": "command", "queue": "q", "type": "a"}
    name = "inboxd_completion_duration_seconds"
    assert value(registry, f"{name}_sum", **lane) == 110
    assert value(registry, f"{name}_bucket", **lane, le="10.0") == 1
    assert value(registry, f"{name}_bucket", **lane, le="300.0") == 2


def test_stories_are_timed_by_the_type_that_ended_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally_module, "MAX_UNFOLDED", 2)
    monkeypatch.setattr(tally_module, "MAX_SERIES", 2)
    tally, registry = Tally(Clock()), CollectorRegistry()
    registry.register(tally)
    for seconds in (0.5, 59.0, 61.0):
        tally.end_story("command", "pay", seconds)
    tally.end_story("event", "seen", 1.0)
    tally.end_story("event", "third", 1.0)
    name, pay = "inboxd_story_duration_seconds", {"kind": "command", "type": "pay"}
    assert value(registry, f"{name}_sum", **pay) == 120.5
    assert value(registry, f"{name}_bucket", **pay, le="60.0") == 2, "two stories within a minute"
    assert value(registry, f"{name}_count", kind="event", type=OTHER) == 1


def test_unwritten_statistics_are_drained_again_by_period() -> None:
    clock = Clock(1_203.0)
    tally = Tally(clock)
    for _ in range(3):
        tally.add("event", "a", "failed", 1.0, 0.0, "t")
        clock.now += PERIOD
        tally.restore_statistics(tally.drain_statistics())
    tally.add("event", "a", "failed", 5.0, 0.0, "t")
    failed = key("event", "t", "a", "failed")
    assert tally.drain_statistics() == [
        Statistic(failed, 3, of(1.0, 1.0, 1.0), of(0.0, 0.0, 0.0), of()),
        Statistic(failed._replace(counted_at=1_215.0), 1, of(5.0), of(0.0), of()),
    ]


def test_undrained_statistics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally_module, "MAX_STATISTICS", 3)
    tally = Tally()
    for number in range(5):
        tally.add("event", f"t{number}", "failed", 1.0, 0.0)
    assert [row.key.type for row in tally.drain_statistics()] == ["t2", "t3", "t4"]


def test_lanes_of_undrained_statistics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally_module, "MAX_SERIES", 2)
    tally = Tally()
    for topics in (("a", "b", "c", "d", "a"), ("d",)):
        for topic in topics:
            tally.add("event", "declared", "failed", 1.0, 0.0, topic)
        found = [(row.key.lane, row.key.type, row.rows) for row in tally.drain_statistics()]
        if len(topics) > 1:
            assert found == [("a", "declared", 2), ("b", "declared", 1), (OTHER, "declared", 2)]
        else:
            assert found == [("d", "declared", 1)], "each drain makes room"


def test_unfolded_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally_module, "MAX_UNFOLDED", 4)
    tally = Tally()
    for _ in range(9):
        tally.add("event", "a", "succeeded", 1.0, 0.0)
    assert tally._unfolded == 1


def tenants_of(tally: Tally, *names: str | None) -> list[tuple[str | None, int]]:
    """Count one row of each tenant, and drain the counts by tenant."""
    for name in names:
        tally.add("event", "a", "failed", 1.0, 0.0, "t", 0.0, "", name)
    return [(row.key.tenant, row.rows) for row in tally.drain_statistics()]


def test_tenants_are_counted_by_name_while_there_is_room() -> None:
    tally = Tally(most_tenants=3)
    assert tenants_of(tally, "a", None, "b", "a") == [("a", 2), (None, 1), ("b", 1)]
    tally.admit_tenants({"a", "z"})
    assert tenants_of(tally, "a", "b", "c", "z") == [("a", 1), ("b", 1), (OTHER, 1), ("z", 1)]
    tally.admit_tenants({"a", "z", "y"})
    assert tenants_of(tally, "a", "b", "y") == [("a", 1), (OTHER, 1), ("y", 1)]


def test_places_of_tenants_are_shared_with_counts_of_many_rows() -> None:
    """A chunk counts many rows of a tenant at once, before its single rows."""
    tally = Tally(most_tenants=2)
    named = {tally.place_of(tenant) for tenant in ("a", None, *map(str, range(1_000)))}
    assert named == {"a", None, "0", OTHER}
    assert tally.place_of(OTHER) == OTHER, "OTHER takes no place"
    assert tenants_of(tally, "a", OTHER, "1", "0") == [("a", 1), (OTHER, 2), ("0", 1)]


def test_without_room_no_tenant_is_counted_by_name() -> None:
    assert tenants_of(Tally(most_tenants=0), "a", None, "b") == [(None, 3)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 1e5), st.floats(-1, 1e5))))
def test_counts_do_not_depend_on_folding(rows: list[tuple[str, float, float]]) -> None:
    once, often = Tally(Clock()), Tally(Clock())
    for type_, run, age in rows:
        for tally in (once, often):
            tally.add("event", type_, "succeeded", run, 0.0, "t", age)
        often.fold()
    counts = [
        {
            row.key: (
                row.rows,
                *(part.histogram for part in (row.run, row.wait, row.completion) if part),
            )
            for row in tally.drain_statistics()
        }
        for tally in (once, often)
    ]
    assert counts[0] == counts[1]


class PlainCount:
    """The minimal cost of a row: one count for each name, without durations or limits."""

    def __init__(self) -> None:
        self.counts: dict[tuple[object, ...], int] = {}

    def add(self, *names: object) -> None:
        key = names[:3] + names[5:]
        self.counts[key] = self.counts.get(key, 0) + 1


def processor_seconds(counter: Tally | PlainCount, tenant: str | None) -> float:
    """The processor time of 20,000 rows."""

    def count() -> None:
        for number in range(20_000):
            run = 0.001 * (number % 50)
            counter.add("event", "a.b", "succeeded", run, 0.01, "default", 0.5, "", tenant)

    # Processor time does not count other processes.
    return timeit.Timer(count, timer=process_time).timeit(number=1)


@pytest.mark.parametrize("tenant", [None, "a tenant"])
def test_counting_a_row_costs_at_most_two_plain_counts(tenant: str | None) -> None:
    tally, plain = Tally(), PlainCount()
    turns = [(processor_seconds(tally, tenant), processor_seconds(plain, tenant)) for _ in range(7)]
    # Measured: 1.35 to 1.45 plain counts.
    assert min(turn[0] for turn in turns) < 2 * min(turn[1] for turn in turns)
