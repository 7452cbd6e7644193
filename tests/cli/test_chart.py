"""`inboxd chart`: in the terminal, as JSON, and as files drawn by matplotlib."""

import struct
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from inboxd.cli import chart as command
from inboxd.cli import output
from inboxd.cli.chart_files import draw
from inboxd.operations.charts import Chart, Drawn
from inboxd.operations.spans import span_of
from tests.cli.conftest import Cli
from tests.cli.counted import count

Sql = Callable[..., list[Any]]

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def day(sql: Sql) -> None:
    # Avoid the end of a minute: if it ended before the chart, all points would move by one.
    sql("select pg_sleep(60 - s) from extract(second from clock_timestamp()) s where s > 55")
    count(sql, "0 min", 3, took="{0,0,0,0,0,0,0,3}")
    count(sql, "30 min", 40, took="{0,0,0,0,0,0,0,40}")
    count(sql, "30 min", 5, outcome="failed", took="{0,0,0,0,0,0,0,0,0,0,0,0,0,0,5}")
    count(sql, "30 min", 7, type="order.sent", lane="mails", took="{}")
    count(sql, "20 min", 9, kind="command", type="mail.send", lane="email", took="{0,9}")
    sql(
        """insert into inboxd.samples
           select now() - n * interval '1 min', 1000 - 10 * n, 500 - n, 60 - n, 0, 0, 4, 0, n,
                  2, 0, 0, 0, null, 0, 0, 0, 0, 0, 1, true
             from generate_series(0, 29) n"""
    )
    sql(
        """insert into inboxd.sampled_lanes
           select date_trunc('hour', at), 'event', 'orders', type,
                  array_fill(null::integer, array[extract(minute from at)::integer])
                    || array[rows], array_fill(null::integer,
                  array[extract(minute from at)::integer]) || array[1],
                  array_fill(null::integer, array[extract(minute from at)::integer]) || array[5]
             from (select now() - interval '10 min' as at) s,
                  (values ('order.paid', 8), ('order.sent', 3)) v(type, rows)"""
    )
    sql(
        "insert into inboxd.declared_types (kind, type, title)"
        " values ('event', 'order.paid', 'An order was paid')"
    )


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the output be a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    for module in (output, command):
        monkeypatch.setattr(module, "on_terminal", lambda: True)


def points(cli: Cli, *arguments: str) -> list[Any]:
    found = cli("chart", *arguments, "--since", "1h", "--json")
    return [each["value"] for each in found.json["points"]]


@pytest.mark.parametrize(
    ("arguments", "now", "then", "whole"),
    [
        (["events"], 3, 47, 50),
        (["events", "succeeded", "--type", "order.paid"], 3, 40, 43),
        (["events", "succeeded", "--topic", "mails"], 0, 7, 7),
        (["events", "failed"], 0, 5, 5),
        (["events", "retried"], 0, 0, 0),
    ],
)
def test_executions_are_counted_in_each_minute(
    cli: Cli, arguments: list[str], now: int, then: int, whole: int
) -> None:
    found = points(cli, *arguments)
    assert len(found) == 61
    assert found[30] == then
    assert found[60] == now
    assert sum(found) == whole


def test_chart_of_a_tenant_has_hours_and_says_whether_all_rows_are_counted(
    cli: Cli, sql: Sql
) -> None:
    sql("truncate inboxd.stats_written")
    count(sql, "3 h", 40, tenant="c1")
    count(sql, "3 h", 5, tenant="c2")
    sql("insert into inboxd.stats_tenants (tenant) values ('c1')")
    found = cli("chart", "events", "--tenant", "c1", "--since", "5h", "--json").json
    assert (found["tenant"], found["exactness"]) == ("c1", "about")
    assert (found["resolution"], sum(each["value"] for each in found["points"])) == ("hours", 40)
    assert found["points"][-4]["value"] == 40
    out = cli("chart", "events", "--tenant", "c1").out
    assert "Events: succeeded an hour, tenant c1" in out
    assert "at least" not in out
    other = cli("chart", "events", "--tenant", "c2", "--json").json
    assert (other["exactness"], sum(each["value"] for each in other["points"])) == ("at_least", 5)
    assert "at least: this tenant has no place" in cli("chart", "events", "--tenant", "c2").out


def test_percentile_of_a_minute_without_executions_is_unknown(cli: Cli) -> None:
    found = points(cli, "events", "run-time", "--type", "order.paid")
    assert [n for n, each in enumerate(found) if each is not None] == [30, 60]
    assert 8 <= found[30] <= 12, "5 of 45 are slow"
    low = points(cli, "events", "run-time", "--type", "order.paid", "--percentile", "p50")
    assert 0.06 < low[30] < 0.13
    done = points(cli, "events", "completion-time", "--type", "order.paid")
    assert 0.06 < done[30] < 0.13, "completion time counts only successes"
    assert points(cli, "commands", "wait-time", "--queue", "email")[40] < 0.002


def test_backlog_and_arrivals_come_from_samples(cli: Cli) -> None:
    waiting = points(cli, "events", "backlog")
    assert waiting[0] is None
    assert (waiting[60], waiting[40]) == (60, 40)
    assert points(cli, "events", "dead-letters")[60] == 4
    assert points(cli, "events", "oldest")[50] == 10
    assert points(cli, "events", "arrivals")[59] == 10
    assert points(cli, "commands", "arrivals")[59] == 1
    lane = points(cli, "events", "backlog", "--topic", "orders")
    assert (lane[50], lane[55], lane[0]) == (11, 0, None), (
        "0 in a sample without the lane, unknown without a sample"
    )
    one = points(cli, "events", "backlog", "--topic", "orders", "--type", "order.sent")
    assert one[50] == 3


@pytest.mark.usefixtures("terminal")
def test_steps_without_a_value_are_counted_in_words(cli: Cli, tmp_path: Path) -> None:
    hour = ("--since", "1h")
    out = cli("chart", "events", "backlog", *hour).out
    assert "blank in 31 of 61 steps: no sample was taken\n" in out
    out = cli("chart", "events", "run-time", "--type", "order.paid", *hour).out
    assert "blank in 59 of 61 steps: there was nothing to measure\n" in out
    assert "blank" not in cli("chart", "events", *hour).out
    file = tmp_path / "backlog.svg"
    cli("chart", "events", "backlog", *hour, "--output", file)
    assert "blank in 31 of 61 steps: no sample was taken" in texts(file)


def test_document_names_measure_type_and_unit(cli: Cli) -> None:
    found = cli("chart", "events", "run-time", "--type", "order.paid", "--json").json
    assert {name: found[name] for name in ("of", "measure", "percentile", "type", "unit")} == {
        "of": "events",
        "measure": "run-time",
        "percentile": "p95",
        "type": "order.paid",
        "unit": "seconds",
    }
    assert (found["title"], found["resolution"], found["step"]) == (
        "An order was paid",
        "hours",
        3600,
    )
    assert {"since", "until", "lane", "points"} <= set(found)
    whole = cli("chart", "events", "failed", "--json").json
    assert (whole["percentile"], whole["unit"]) == (None, "rows")


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize("since", ["1h", "6h", "7d", "365d"])
def test_plot_fits_into_the_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, columns: int, since: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = cli("chart", "events", "--since", since).out.splitlines()
    assert lines[0].startswith("Events: succeeded")
    plot = lines[1:15]
    assert max(map(len, plot)) <= max(columns, 30)
    assert [line for line in plot if "█" in line]
    assert lines[-2].startswith("≈ most ")
    assert lines[-2].endswith(", in all 50")


@pytest.mark.usefixtures("terminal")
def test_chart_has_a_title_times_and_a_scale(cli: Cli) -> None:
    out = cli("chart", "events", "--since", "1h", "--type", "order.paid").out
    assert "Events: succeeded a minute, order.paid (An order was paid)\n" in out
    assert "\n40 ┤" in out
    assert "\n 0 ┤" in out
    assert "by the minute\n" in out
    assert (
        "run time, p99, topic orders"
        in cli("chart", "events", "run-time", "--topic", "orders", "--percentile", "p99").out
    )
    assert "of UTC" in cli("chart", "events", "--since", "30d").out


def test_chart_without_data_has_a_text(cli: Cli, tmp_path: Path) -> None:
    out = cli("chart", "events", "run-time", "--type", "nothing.such").out
    assert "no data since" in out
    file = tmp_path / "none.svg"
    assert cli("chart", "events", "run-time", "--type", "nothing.such", "--output", file).code == 0
    assert "no data" in texts(file)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_repeated_hour_of_dst_is_two_points() -> None:
    """On 25 October 2026 Berlin has the hour from two to three twice."""
    span = span_of(datetime(2026, 10, 25, 12, tzinfo=UTC), timedelta(days=1))
    written = command.time_of_day(span)
    names = [written(at) for at in span.begins]
    assert names.count("10-25 02:00") == 2
    assert {b - a for a, b in pairwise(span.begins)} == {timedelta(hours=1)}
    assert "+02:00 to 2026-10-25 13:00:00+01:00" in command.local_times(span)


def texts(file: Path) -> str:
    """Return all texts of an SVG."""
    root = ET.parse(file).getroot()  # noqa: S314 - the test drew this file
    assert root.tag == f"{SVG}svg"
    return "\n".join("".join(each.itertext()) for each in root.iter(f"{SVG}text"))


def test_svg_has_title_times_and_shapes(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "paid.svg"
    arguments = ("chart", "events", "--since", "1h", "--type", "order.paid", "--output", file)
    assert cli(*arguments).out == f"Chart written to {file}\n"
    told = texts(file)
    assert "Events: succeeded a minute, order.paid (An order was paid)" in told
    assert "by the minute" in told
    assert "40" in told.splitlines()
    assert len(list(ET.parse(file).getroot().iter(f"{SVG}path"))) > 10  # noqa: S314
    found = cli(*arguments, "--json").json
    assert found["file"] == str(file)
    assert len(found["points"]) == 61


def test_odd_names_are_drawn_as_text(cli: Cli, sql: Sql, tmp_path: Path) -> None:
    type_ = r"a$\frac{1}{0}$<script>&東京"
    count(sql, "1 min", 3, type=type_)
    file = tmp_path / "odd.svg"
    assert cli("chart", "events", "--since", "1h", "--type", type_, "--output", file).code == 0
    assert type_ in texts(file)
    png = tmp_path / "odd.png"
    found = cli("chart", "events", "--since", "1h", "--type", type_, "--output", png)
    assert (found.code, found.err) == (0, "")


def test_png_has_1000_by_500_pixels(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "paid.png"
    assert cli("chart", "events", "run-time", "--since", "7d", "--output", file).code == 0
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1000, 500)
    assert len(data) > 5_000


def test_same_points_make_the_same_file(tmp_path: Path) -> None:

    span = span_of(datetime(2026, 10, 25, 12, tzinfo=UTC), timedelta(hours=1))
    chart = Chart(Drawn("event", "failed"), None, span, tuple(map(float, range(60))))
    for ending in ("svg", "png"):
        files = [tmp_path / f"{n}.{ending}" for n in (1, 2)]
        for file in files:
            draw(chart, "title", file)
        first, second = (file.read_bytes() for file in files)
        assert first == second


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["events", "--queue", "email"], "--topic is for events, --queue for commands."),
        (["commands", "--topic", "orders"], "--topic is for events, --queue for commands."),
        (["events", "arrivals", "--topic", "orders"], "counted of all events together"),
        (["events", "backlog", "--type", "a.b"], "is counted per topic: give the topic too"),
        (["events", "backlog", "--tenant", "t"], "backlog of a tenant is not counted"),
        (["commands", "arrivals", "--tenant", "t"], "arrivals of a tenant is not counted"),
        (["events", "--output", "chart.pdf"], "its name must end in .svg or .png"),
        (["events", "--output", "/nowhere/chart.svg"], "/nowhere/chart.svg cannot be written: No "),
        (["events", "--since", "0s"], "is not a valid beginning"),
        (["events", "sent"], "'sent' is not one of"),
    ],
)
def test_invalid_charts_are_refused(cli: Cli, arguments: list[str], told: str) -> None:
    found = cli("chart", *arguments)
    assert found.code == 2
    assert told in found.err


def test_missing_matplotlib_is_named_with_its_installation(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "inboxd.cli.chart_files", raising=False)
    found = cli("chart", "events", "--output", tmp_path / "a.svg")
    assert found.code == 2
    assert "pip install 'inboxd[chart]'" in found.err
    assert not list(tmp_path.iterdir())
    assert cli("chart", "events").code == 0
