"""`inboxd status --since`, and the last hour of a queue or a topic."""

from collections.abc import Callable
from typing import Any

import pytest

from inboxd.cli import output
from tests.cli.conftest import Cli
from tests.cli.counted import count

Sql = Callable[..., list[Any]]

FAST = "{0,0,0,0,0,0,0,10}"  # about 100 ms each
SLOW = "{0,0,0,0,0,0,0,0,0,0,0,0,0,0,2}"  # about 12 s each


@pytest.fixture(autouse=True)
def day(sql: Sql) -> None:
    """Write statistics; one hour of them is rolled up already."""
    count(sql, "0 min", 10, took=FAST)
    count(sql, "5 min", 20, took=FAST)
    count(sql, "5 min", 4, outcome="failed", took=SLOW)
    count(sql, "5 min", 3, after="retry", took=SLOW)
    count(sql, "5 min", 1, after="replay", outcome="failed", took=SLOW)
    count(sql, "5 min", 6, outcome="retried", took=SLOW)
    count(sql, "5 min", 99, outcome="ignored", took="{}")
    count(sql, "10 min", 2, type="order.sent", lane="mails", took=SLOW)
    count(sql, "3 h", 50, type="order.sent", took=FAST)
    count(sql, "10 min", 7, kind="command", type="mail.send", lane="email", took=FAST)
    sql(
        "insert into inboxd.declared_types (kind, type, title)"
        " values ('event', 'order.paid', 'An order was paid'),"
        "        ('command', 'mail.send', E'Send\\u001b[31m a mail')"
    )


def test_span_has_executions_of_each_type_and_lane(cli: Cli) -> None:
    found = cli("status", "--since", "1h", "--json").json
    assert (found["resolution"], found["step"]) == ("minutes", 60)
    assert (found["exactness"], found["age"]) == ("about", 5)
    events = found["events"]
    paid, sent = events["types"]
    assert (paid["type"], paid["title"]) == ("order.paid", "An order was paid")
    assert (sent["type"], sent["title"]) == ("order.sent", "Order sent")
    done = [paid[name] for name in ("executed", "succeeded", "failed", "retried")]
    assert done == [44, 33, 5, 6], "ignored events are not executions"
    assert paid["success"] == pytest.approx(33 / 38)
    again = [paid[name] for name in ("reprocessed", "after_retry", "after_replay", "failed_again")]
    assert again == [4, 3, 0, 1]
    assert paid["success_again"] == pytest.approx(3 / 4)
    assert paid["rate"] == pytest.approx(33 / paid["seconds"])
    for name in ("run", "wait"):
        assert 0.06 < paid[name]["p50"] < 0.13
        assert 8 <= paid[name]["p95"] <= paid[name]["p99"] <= 12
    assert paid["completion"]["count"] == 33, "only successes"
    lanes = {each["topic"]: each["succeeded"] for each in events["topics"]}
    assert lanes == {"orders": 33, "mails": 2}
    (mail,) = found["commands"]["types"]
    assert (mail["type"], mail["executed"]) == ("mail.send", 7)
    assert [each["queue"] for each in found["commands"]["queues"]] == ["email"]


def test_parts_and_trends_add_up(cli: Cli) -> None:
    events = cli("status", "--since", "5h", "--json").json["events"]
    for parts in (events["types"], events["topics"]):
        assert sum(each["executed"] for each in parts) == events["executed"] == 96
        for each in (*parts, events):
            assert sum(each["trend"]) == each["executed"]
    assert sum(events["ended"]) == 90, "without retried executions"
    (at,) = [n for n, rows in enumerate(events["types"][0]["trend"]) if rows == 50]
    assert at == len(events["trend"]) - 1 - 180


@pytest.mark.parametrize(
    ("since", "resolution", "executed"),
    [("4h", "minutes", 96), ("1d", "hours", 96), ("30d", "days", 96), ("30m", "minutes", 46)],
)
def test_length_of_a_span_decides_its_resolution(
    cli: Cli, since: str, resolution: str, executed: int
) -> None:
    found = cli("status", "--since", since, "--json").json
    assert found["resolution"] == resolution
    assert found["events"]["executed"] == executed
    assert sum(found["events"]["trend"]) == executed
    assert f"by {resolution} of UTC" in cli("status", "--since", since).out


def test_since_takes_a_time(cli: Cli, sql: Sql) -> None:
    at = sql("select (now() - interval '30 min')::text")[0][0].replace(" ", "T")
    assert cli("status", "--since", at, "--json").json["events"]["executed"] == 46


@pytest.mark.usefixtures("sql")
def test_statistics_of_the_future_are_in_the_last_step(cli: Cli, sql: Sql) -> None:
    count(sql, "-20 min", 1000)
    events = cli("status", "--since", "1h", "--json").json["events"]
    assert events["executed"] == 1046
    assert events["trend"][-1] >= 1000
    assert sum(events["trend"]) == 1046


def test_lines_beyond_the_limit_are_summed_up(cli: Cli, sql: Sql) -> None:
    sql(
        """INSERT INTO inboxd.stats_written (minute, kind, lane, type, outcome, after, count)
           SELECT date_trunc('minute', now()), 'command', 'q' || n, 't' || n, 'succeeded', '', n
             FROM generate_series(1, 300) n"""
    )
    found = cli("status", "--since", "1h", "--limit", "3", "--json").json["commands"]
    for name, parts in (("type", found["types"]), ("queue", found["queues"])):
        *shown, others = parts
        assert [each["executed"] for each in shown] == [300, 299, 298]
        assert (others[name], others["others"]) == (None, 298)
        assert others["executed"] == 7 + 300 * 301 // 2 - 897
        assert sum(others["trend"]) == others["executed"]
    out = cli("status", "--since", "1h", "--limit", "3").out
    assert "(298 others)" in out
    assert len(out.splitlines()) < 50


def test_tables_fit_into_80_columns_and_state_their_exactness(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    out = cli("status", "--since", "1h").out
    lines = [line for line in out.splitlines() if not line.startswith("(no room for")]
    assert max(map(len, lines)) <= 80
    assert "at most 5s old" in out
    assert "the last seconds of a killed worker may be missing" in out
    (paid,) = [line for line in lines if line.startswith("order.paid")]
    assert paid.split()[1:4] == ["33", "5", "6"]
    assert "86.8 %" in paid
    assert set(paid[-16:]) <= {*"▁▂▃▄▅▆▇█"}
    assert "\x1b" not in out
    wide = cli("status", "--since", "1h", "--wide").out
    assert "An order was paid" in wide
    assert "4 (75 %)" in wide
    assert "done p99" in wide


def test_span_of_a_tenant_has_its_rows_alone(cli: Cli, sql: Sql) -> None:
    count(sql, "3 h", 30, tenant="c1", took=FAST)
    count(sql, "2 h", 4, type="order.sent", lane="mails", outcome="retried", tenant="c1", took=SLOW)
    count(sql, "2 h", 9, tenant="c2", took=FAST)
    sql("insert into inboxd.stats_tenants (tenant) values ('c1')")
    found = cli("status", "--since", "5h", "--tenant", "c1", "--limit", "1", "--json").json
    assert (found["tenant"], found["exactness"], found["resolution"]) == ("c1", "about", "hours")
    events = found["events"]
    assert (events["executed"], events["arrived"]["trend"][0]) == (34, None)
    assert (events["trend"][-4:], events["ended"][-4:]) == ([30, 4, 0, 0], [30, 0, 0, 0])
    for name, parts in (("type", events["types"]), ("topic", events["topics"])):
        assert [(each[name], each["executed"]) for each in parts] == [
            ("order.paid" if name == "type" else "orders", 30),
            (None, 4),
        ]
        assert [each["trend"][-4:] for each in parts] == [[30, 0, 0, 0], [0, 4, 0, 0]]
    assert "at least" not in cli("status", "--since", "5h", "--tenant", "c1").out
    other = cli("status", "--since", "5h", "--tenant", "c2")
    assert "at least: this tenant has no place" in other.out
    assert "≈ 9 succeeded" in other.out


def test_arrivals_come_from_samples(cli: Cli, sql: Sql) -> None:
    assert cli("status", "--since", "1h", "--json").json["events"]["arrived"]["seconds"] == 0
    sql(
        """insert into inboxd.samples
           select now() - n * interval '1 min', 1000 - 10 * n, 500 - n, 0, 0, 0, 0, 0, null,
                  0, 0, 0, 0, null, 0, 0, 0, 0, 0, 1, true
             from generate_series(0, 29) n"""
    )
    found = cli("status", "--since", "1h", "--json").json
    arrived = found["events"]["arrived"]
    assert arrived["rows"] == 290
    assert arrived["seconds"] == pytest.approx(29 * 60, abs=1)
    assert arrived["trend"][-2] == 10
    assert arrived["trend"][0] is None
    assert found["commands"]["arrived"]["rows"] == 29
    assert "290 arrived (10/min" in cli("status", "--since", "1h").out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--since", "1h", "--watch"], "leave out --since"),
        (["--tenant", "t"], "give --since too"),
        (["--since", "9999d"], "is not a valid beginning"),
        (["--since", "soon"], "neither a duration"),
        (["--since", "2999-01-01"], "give a time in the past"),
    ],
)
def test_invalid_spans_are_refused(cli: Cli, options: list[str], told: str) -> None:
    found = cli("status", *options)
    assert found.code == 2
    assert told in found.err
    assert found.out == ""


def test_empty_span_has_no_percentages(cli: Cli, sql: Sql) -> None:
    sql("truncate inboxd.stats_written")
    found = cli("status", "--since", "7d", "--json").json
    assert found["events"]["types"] == []
    assert found["events"]["success"] is None
    assert found["events"]["run"]["p95"] is None
    assert "≈ 0 succeeded (0/s)" in cli("status", "--since", "7d").out


def test_queue_and_topic_show_their_last_hour(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.commands (type, queue) values ('mail.send', 'email')")
    sql("insert into inboxd.events (type, topic) values ('order.paid', 'orders')")
    (mail,) = cli("queues", "show", "email", "--json").json["last_hour"]
    assert (mail["type"], mail["succeeded"]) == ("mail.send", 7)
    assert 0.06 < mail["run"]["p95"] < 0.13
    out = cli("queues", "show", "email").out
    assert "Done in the last hour" in out
    assert "run p95" in out
    assert "\x1b" not in out, "titles come from plugins"
    assert [
        each["type"] for each in cli("topics", "show", "orders", "--json").json["last_hour"]
    ] == ["order.paid"]
    assert "An order was paid" in cli("topics", "show", "orders").out


def test_status_has_titles_and_percentiles(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.events (type, topic) values ('order.paid', 'orders')")
    found = cli("status", "--json").json
    assert [lane["title"] for lane in found["lanes"]] == ["An order was paid"]
    done = {each["type"]: each for each in found["throughput"]}
    assert done["order.paid"]["title"] == "An order was paid"
    assert 0.06 < done["order.paid"]["p50"] < 0.13
    hours = {(each["hours"], each["type"]): each for each in found["completed"]}
    assert 8 <= hours[1, "order.paid"]["p95"] <= 12
    assert 0.06 < hours[24, "order.sent"]["p50"] < 0.13
    assert hours[24, "order.sent"]["title"] == "Order sent"
    out = cli("status").out
    assert "An order was paid" in out
    assert "p95" in out
