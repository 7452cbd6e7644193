"""Alerts and pages use existing metrics and labels."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from inboxd.operations.totals import Totals
from tests.support.reference import shown_metrics

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yaml"
STATES = ROOT / "docs" / "monitoring.md"
# Prometheus and a supervisor add these labels to each series.
OF_THE_SCRAPE = {"instance", "job", "process"}

_SERIES = re.compile(r"(inboxd_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"[^"]*"')
# Other names may be no metrics, such as roles.
_A_METRIC = re.compile(r"\w+_(total|seconds|rows|keys|lines|days|topics)")
_GROUPED = re.compile(r"\b(?:by|without) \(([^)]*)\) \(")


def labels_of() -> dict[str, set[str]]:
    """The labels of each series, by its name in PromQL."""
    found = {}
    for each in (metric for metrics in shown_metrics().values() for metric in metrics):
        labels = set(each.labels)
        found[each.name] = labels
        if each.kind == "histogram":
            found |= {f"{each.name}_{part}": labels for part in ("sum", "count")}
            found[f"{each.name}_bucket"] = labels | {"le"}
    return found


LABELS = labels_of()


def alerts() -> dict[str, tuple[str, str]]:
    """The alerts: by name, the expression and the rest of the text."""
    parts = re.split(r"(?m)^      - alert: (\w+)$", ALERTS.read_text("utf-8"))[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        expression = re.match(r"(?s)\s*expr:(?: >-)?(.+?)\n        (?=for|labels)", text)
        assert expression, name
        found[name] = (" ".join(expression[1].split()), text[expression.end() :])
    return found


def mistakes(expression: str) -> Iterator[str]:
    """The metrics and labels of an expression that do not exist."""
    for name, asked in _SERIES.findall(expression):
        if name not in LABELS:
            yield f"{name} is not a metric"
            continue
        named = [_MATCHER.sub(r"\1", each.strip()) for each in asked.split(",") if each]
        yield from (f"{name} has no label {each}" for each in named if each not in known(name))
    for match in _GROUPED.finditer(expression):
        grouped = {each.strip() for each in match[1].split(",") if each.strip()}
        for name, _ in _SERIES.findall(argument(expression[match.end() :])):
            missing = grouped - known(name)
            yield from (f"{name} has no label {each} to group by" for each in sorted(missing))


def known(name: str) -> set[str]:
    return LABELS.get(name, set()) | OF_THE_SCRAPE


def argument(text: str) -> str:
    """The text up to the bracket that closes the one before the text."""
    depth = 1
    for place, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if not depth:
            return text[:place]
    return text


def kept_labels(expression: str) -> set[str]:
    """The labels of the series in the result."""
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    if grouped:
        return {each.strip() for some in grouped for each in some.split(",")} - {"le"}
    if re.match(r"(min|max|sum|absent)\b", expression):
        return set()
    return {label for name, _ in _SERIES.findall(expression) for label in known(name)}


@pytest.mark.parametrize("alert", alerts())
def test_alert_uses_existing_series_and_shows_their_labels(alert: str) -> None:
    expression, rest = alerts()[alert]
    assert _SERIES.search(expression) or "up{" in expression
    assert [*mistakes(expression)] == []
    shown = set(re.findall(r"\$labels\.(\w+)", rest))
    assert shown <= kept_labels(expression), shown - kept_labels(expression)


@pytest.mark.parametrize(
    "series",
    [
        "inboxd_relay_lost_pages_total",
        "inboxd_relay_confirm_duration_seconds_bucket",
        "inboxd_relay_refused_total",
        "inboxd_messages_lag",
        "inboxd_messages_redelivered_total",
        "inboxd_messages_acknowledge_failures_total",
    ],
)
def test_series_of_brokers_has_an_alert(series: str) -> None:
    assert series in {name for said, _ in alerts().values() for name, _ in _SERIES.findall(said)}


def test_alerts_use_states_of_the_page() -> None:
    states = set(re.findall(r"(?m)^\| `(\w+)` \| .+ \| .+ \|$", STATES.read_text("utf-8")))
    asked = re.findall(r'state(?:!?=)"(\w+)"', ALERTS.read_text("utf-8"))
    assert asked
    assert set(asked) <= states


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_page_names_existing_series(page: Path) -> None:
    for expression in re.findall(r"`([^`\n]*inboxd_[^`\n]*)`", page.read_text("utf-8")):
        names = [name for name, _ in _SERIES.findall(expression)]
        if any(name in LABELS or _A_METRIC.fullmatch(name) for name in names):
            assert [*mistakes(expression)] == [], expression


@pytest.mark.parametrize(
    ("expression", "mistake"),
    [
        ("inboxd_evnts_total > 0", "inboxd_evnts_total is not a metric"),
        ('inboxd_paused{lane="a"} > 0', "inboxd_paused has no label lane"),
        (
            "sum by (lane) (rate(inboxd_events_total[5m]))",
            "inboxd_events_total has no label lane to group by",
        ),
        ("max by (le) (inboxd_paused)", "inboxd_paused has no label le to group by"),
    ],
)
def test_missing_series_or_label_is_found(expression: str, mistake: str) -> None:
    assert [*mistakes(expression)] == [mistake]


def test_page_of_brokers_explains_each_alert_on_brokers() -> None:
    page = (ROOT / "docs" / "brokers.md").read_text("utf-8")
    about = [
        name for name, (asked, _) in alerts().items() if "_relay_" in asked or "_messages_" in asked
    ]
    assert about
    assert [name for name in about if f"| `{name}` |" not in page] == []


def test_page_explains_each_number_of_the_totals() -> None:
    (page,) = re.findall(r"(?s)\n## Totals\n(.*?)\n## ", STATES.read_text("utf-8"))
    numbers = [each.name for each in fields(Totals) if each.name != "days_without_census"]
    assert [name for name in numbers if f"`{name}`" not in page] == []
