"""Metrics: names, units and limits."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from inboxd.telemetry import metrics as metrics_module
from inboxd.telemetry import tally as tally_module
from inboxd.telemetry.metrics import CommandBacklog, EventBacklog, Metrics
from inboxd.telemetry.tally import OTHER, Tally

MINUTE = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


def own_families(metrics: Metrics) -> list[Metric]:
    return [f for f in metrics.registry.collect() if f.name.startswith("inboxd_")]


_OF_ROWS = ("inboxd_page_rows", "inboxd_chunk_events", "inboxd_webhook_page_receipts")
_OF_TIME = ("_duration_seconds", "_lag_seconds", "_age_seconds", "_timestamp_seconds")


def test_queues_and_types_of_expired_commands_are_bounded(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer may put ids into them."""
    monkeypatch.setattr(metrics_module, "MAX_LANES", 2)
    for type_ in ("a", "b", "c", "d", "a"):
        metrics.count_expired("q", type_)
    found = [
        value(metrics.registry, "inboxd_commands_expired_total", queue=queue, type=type_)
        for queue, type_ in (("q", "a"), ("q", "b"), ("q", "c"), (OTHER, OTHER))
    ]
    assert found == [2, 1, None, 2]


def test_two_daemons_in_one_process_have_separate_metrics(metrics: Metrics) -> None:
    other = Metrics("1.2.3")
    other.wakeups.labels("event", "notify").inc()
    assert value(other.registry, "inboxd_wakeups_total", kind="event", cause="notify") == 1
    assert value(metrics.registry, "inboxd_wakeups_total", kind="event", cause="notify") is None


def test_names_and_help_follow_the_rules(metrics: Metrics) -> None:
    for family in own_families(metrics):
        assert re.fullmatch(r"inboxd_[a-z_]+", family.name)
        assert not family.name.endswith(("_ms", "_milliseconds", "_count", "_sum", "_bucket"))
        assert not family.name.endswith(("_minutes", "_hours", "_days"))
        if family.name.endswith("_seconds"):
            assert family.name.endswith(_OF_TIME)
        assert family.documentation.endswith(".")
        if family.type == "histogram" and family.name not in _OF_ROWS:
            assert family.name.endswith(("_duration_seconds", "_lag_seconds"))


def test_exposition_is_parsed_again(metrics: Metrics) -> None:
    metrics.tally.add("command", 'odd "type"\n', "succeeded", 0.2, 1.0, "email")
    text = generate_latest(metrics.registry).decode()
    families = {f.name: f for f in text_string_to_metric_families(text)}
    assert families["inboxd_commands"].samples[0].labels["type"] == 'odd "type"\n'


def test_counts_and_histograms_of_rows(metrics: Metrics) -> None:
    for duration in (0.002, 0.2, 400.0):
        metrics.tally.add("event", "a.b", "succeeded", duration, 0.5)
    metrics.tally.add("command", "c.d", "deferred", 0.1, 2.0, "email")
    metrics.tally.fail("event", "a.b", "ValueError")
    sample = metrics.registry.get_sample_value
    assert sample("inboxd_events_total", {"type": "a.b", "outcome": "succeeded"}) == 3
    commands = {"queue": "email", "type": "c.d", "outcome": "deferred"}
    assert sample("inboxd_commands_total", commands) == 1
    labels = {"kind": "event", "type": "a.b"}
    assert sample("inboxd_handler_duration_seconds_bucket", labels | {"le": "0.0025"}) == 1
    assert sample("inboxd_handler_duration_seconds_bucket", labels | {"le": "300.0"}) == 2
    assert sample("inboxd_handler_duration_seconds_bucket", labels | {"le": "+Inf"}) == 3
    assert sample("inboxd_handler_duration_seconds_count", labels) == 3
    assert sample("inboxd_handler_duration_seconds_sum", labels) == pytest.approx(400.202)
    assert sample("inboxd_event_wait_duration_seconds_count") == 3
    assert sample("inboxd_command_wait_duration_seconds_sum", {"queue": "email"}) == 2
    assert sample("inboxd_attempts_total", labels) == 3
    assert sample("inboxd_attempts_total", {"kind": "command", "type": "c.d"}) is None
    assert sample("inboxd_failures_total", labels | {"error": "ValueError"}) == 1


@given(st.lists(st.floats(min_value=0, max_value=1000), max_size=50))
def test_buckets_count_as_observing_each_would(durations: list[float]) -> None:
    tally, registry = Tally(), CollectorRegistry()
    registry.register(tally)
    for duration in durations:
        tally.add("event", "a", "succeeded", duration, 0.0)
    for bound in tally_module.DURATION_BUCKETS:
        shown = value(
            registry,
            "inboxd_handler_duration_seconds_bucket",
            kind="event",
            type="a",
            le=str(bound),
        )
        assert (shown or 0) == sum(duration <= bound for duration in durations)


def test_types_that_producers_invent_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally_module, "MAX_SERIES", 3)
    tally, registry = Tally(), CollectorRegistry()
    registry.register(tally)
    for number in range(10):
        tally.add("event", f"t{number}", "failed", 0.0, 0.0)
        tally.fail("event", f"t{number}", "NoHandler")
    labels = {"type": OTHER, "outcome": "failed"}
    assert registry.get_sample_value("inboxd_events_total", labels) == 7
    labels = {"kind": "event", "type": OTHER, "error": OTHER}
    assert registry.get_sample_value("inboxd_failures_total", labels) == 7


def test_the_backlog_is_replaced(metrics: Metrics) -> None:
    metrics.show_backlog([EventBacklog("old", "a", "pending", 5, 1.0)], [])
    lanes = [CommandBacklog(f"q{n}", "a", "0", "pending", n, None) for n in range(600)]
    events = [
        EventBacklog("news", "a", "pending", 7, 3.0),
        EventBacklog("", "a", "failed", 2, None),
        EventBacklog("late", "b", "kept", 4, 9.0),
        EventBacklog("lines", "", "kept", None, 8.0),
        EventBacklog("mails", "c", "pending", 1, 5.0, "brevo"),
    ]
    lanes.append(CommandBacklog("mails", "d", "0", "pending", 1_000, 6.0, "brevo"))
    metrics.show_backlog(events, lanes)
    shown = {
        (
            sample.name,
            *(sample.labels.get(label) for label in ("topic", "type", "state")),
        ): sample.value
        for family in own_families(metrics)
        for sample in family.samples
        if "topic" in sample.labels
    }
    assert shown == {
        ("inboxd_event_backlog_rows", "news", "a", "pending"): 7,
        ("inboxd_event_backlog_age_seconds", "news", "a", "pending"): 3,
        ("inboxd_event_backlog_rows", "", "a", "failed"): 2,
        ("inboxd_event_backlog_rows", "late", "b", "kept"): 4,
        # The backlog age counts only events that a worker can handle.
        ("inboxd_kept_event_age_seconds", "late", "b", None): 9,
        ("inboxd_kept_event_age_seconds", "lines", "", None): 8,
        ("inboxd_event_backlog_rows", "mails", "c", "pending"): 1,
    }
    ages = {family.name: family.samples for family in own_families(metrics)}
    [sample] = ages["inboxd_breaker_backlog_age_seconds"]
    assert (sample.labels, sample.value) == ({"name": "brevo"}, 6)
    assert not ages["inboxd_command_backlog_age_seconds"]
    family = next(f for f in own_families(metrics) if f.name == "inboxd_command_backlog_rows")
    assert len(family.samples) == 601, "all 601 samples fit the limit"


def test_schedules_are_replaced(metrics: Metrics) -> None:
    metrics.show_schedules({"old": MINUTE})
    metrics.show_schedules({"nightly": MINUTE})
    name = "inboxd_schedule_last_success_timestamp_seconds"
    assert value(metrics.registry, name, schedule="nightly") == MINUTE.timestamp()
    assert value(metrics.registry, name, schedule="old") is None


def test_no_created_series_are_shown(metrics: Metrics) -> None:
    metrics.wakeups.labels("event", "notify").inc()
    metrics.claim_duration.labels("event").observe(1)
    assert value(metrics.registry, "inboxd_claim_duration_seconds_count", kind="event") == 1
    for encode in (generate_latest, openmetrics.generate_latest):
        assert "_created" not in encode(metrics.registry).decode()


def test_blocked_keys_are_replaced(metrics: Metrics) -> None:
    metrics.show_blocked([("old", "retry", 5, 1.0)])
    metrics.show_blocked([("q", "dead letter", 2, 70.0)])
    sample = metrics.registry.get_sample_value
    labels = {"queue": "q", "held_by": "dead letter"}
    assert sample("inboxd_blocked_keys", labels) == 2
    assert sample("inboxd_blocked_key_age_seconds", labels) == 70
    assert sample("inboxd_blocked_keys", {"queue": "old", "held_by": "retry"}) is None


def test_build_info_names_the_version(metrics: Metrics) -> None:
    assert 'inboxd_build_info{python="3.' in generate_latest(metrics.registry).decode()
    assert 'version="1.2.3"' in generate_latest(metrics.registry).decode()
