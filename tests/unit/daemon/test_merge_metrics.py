"""Metrics of several processes on one page: valid, complete, and each with its process."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from inboxd.daemon.merge_metrics import FAMILIES, merged, own
from inboxd.telemetry.metrics import Metrics

Samples = list[tuple[str, dict[str, str], str]]


def read(page: str) -> Samples:
    """The samples; values as text: NaN (not known yet) is not equal to itself."""
    return [
        (sample.name, sample.labels, str(sample.value))
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    ]


def page_of(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()


def test_the_page_has_all_metrics_of_each_process() -> None:
    metrics = Metrics("1.2.3")
    metrics.tally.add("event", "a.b", "succeeded", 0.1, 0.1)
    page = page_of(metrics.registry)
    whole = merged({1: page, 3: page})
    alone = read(page)
    assert not any("process" in labels for _, labels, _ in alone), "else the label is there twice"
    for number in ("1", "3"):
        of_one = [
            (name, {k: v for k, v in labels.items() if k != "process"}, value)
            for name, labels, value in read(whole)
            if labels["process"] == number
        ]
        assert of_one == alone
    for line in set(whole.splitlines()):
        if line.startswith("#"):
            assert whole.splitlines().count(line) == 1


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_every_label_value_stays_intact(values: list[tuple[str, str]]) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("inboxd_x", 'Has "x" {y} \\ and more.', ["a", "b"], registry=registry)
    for a, b in values:
        gauge.labels(a, b).set(1)
    found = read(merged({2: page_of(registry)}))
    expected = [(n, {"process": "2", **labels}, v) for n, labels, v in read(page_of(registry))]
    assert found == expected


def test_one_process_may_lack_a_family() -> None:
    both, one = CollectorRegistry(), CollectorRegistry()
    for registry in (both, one):
        Counter("a", "A.", registry=registry).inc()
    Counter("b", "B.", registry=both).inc()
    found = read(merged({1: page_of(one), 2: page_of(both)}))
    totals = [(name, labels) for name, labels, _ in found if name.endswith("_total")]
    assert totals == [
        ("a_total", {"process": "1"}),
        ("a_total", {"process": "2"}),
        ("b_total", {"process": "2"}),
    ]


def test_without_processes_the_page_is_empty() -> None:
    assert merged({}) == ""


def test_the_metrics_of_the_supervisor_are_valid() -> None:
    figures = {name: {"1": 2} for name, *_ in FAMILIES}
    shown = {(labels.popitem()[1], float(value)) for _, labels, value in read(own(figures))}
    assert shown == {("1", 2.0)}
