"""`inboxd events count` and `inboxd commands count`."""

import pytest

from inboxd.operations import totals
from tests.cli.conftest import Cli
from tests.cli.test_rows import Sql, emit, fail, run, send, settle


def _exact(**numbers: int) -> dict[str, object]:
    return {name: {"rows": rows, "exactness": "exact"} for name, rows in numbers.items()}


def _shown(text: str) -> dict[str, tuple[str, str]]:
    """Return rows and exactness by name, without the heading."""
    lines = [line.split("\t") for line in text.splitlines()]
    return {name: (rows, how) for name, rows, how in lines[1:]}


def test_commands_are_counted_by_status(cli: Cli, sql: Sql) -> None:
    ids = [send(sql) for _ in range(4)]
    fail(sql, "commands", ids[0])
    run(sql, ids[1])
    found = cli("commands", "count", "--json").json
    done = dict.fromkeys(("successes", "cancelled", "dismissed", "replayed"), 0)
    assert found.pop("days_without_census") <= 1, "no worker has counted yesterday"
    assert found == _exact(total=4, pending=2, processing=1, errors=1, **done)
    shown = _shown(cli("commands", "count").out)
    assert shown["total"] == ("4", "exact")
    assert shown["processing"] == ("1", "exact")
    assert list(shown) == list(found)


def test_events_are_counted_by_type_and_tenant(cli: Cli, sql: Sql) -> None:
    """The number of running rows is not known by type or tenant."""
    settle(sql, emit(sql, "a.b"))
    emit(sql, "a.b", tenant="north")
    emit(sql, "x.y", tenant="north")
    whole = cli("events", "count", "--json").json
    assert (whole["total"], whole["successes"]) == tuple(_exact(total=3, successes=1).values())
    assert whole["processing"] == {"rows": 0, "exactness": "about"}
    for wanted, total, successes in (
        (("--type", "a.b"), 2, 1),
        (("--tenant", "north"), 2, 0),
        (("--type", "x.y", "--tenant", "north"), 1, 0),
        (("--type", "none"), 0, 0),
    ):
        found = cli("events", "count", *wanted, "--json").json
        numbers = _exact(total=total, successes=successes)
        assert {name: found[name] for name in numbers} == numbers
        assert found["processing"] is None
        told = cli("events", "count", *wanted)
        assert "processing" not in _shown(told.out)
        assert "Running events are counted as pending" in told.err
    assert "Running events" not in cli("events", "count").err


def test_count_has_the_filters_of_lists(cli: Cli, sql: Sql) -> None:
    """The counts equal the numbers of listed rows."""
    ids = [emit(sql, "a.b", payload=f'{{"n": {n}}}') for n in range(4)]
    settle(sql, ids[0])
    settle(sql, ids[1])
    fail(sql, "events", ids[2])
    emit(sql, "x.y", payload='{"n": 1}')
    for wanted in (
        ("--status", "failed"),
        ("--status", "succeeded", "--status", "pending"),
        ("--topic", "default", "--type", "a.b"),
        ("--payload", "n=1"),
        ("--since", "1h", "--by", "ended"),
        ("--until", "1d"),
        ("--entity", "order:17"),
        ("--commands", "failed"),
        ("--error", "nothing of the kind"),
    ):
        listed = cli("events", "list", "--json", "--limit", "100", *wanted).json["events"]
        found = cli("events", "count", "--json", *wanted).json
        assert found["total"] == {"rows": len(listed), "exactness": "exact"}, wanted
        ended = [row for row in listed if row["status"] == "succeeded"]
        assert found["successes"]["rows"] == len(ended), wanted
        assert found["looked_back_to"] is None
    shown = _shown(cli("events", "count", "--payload", "n=1").out)
    assert (shown["total"], shown["pending"]) == (("2", "exact"), ("1", "exact"))
    assert "processing" not in shown


def test_incomplete_count_says_how_far_it_looked(cli: Cli, sql: Sql) -> None:
    for _ in range(6):
        emit(sql, "a.b")
    told = cli("events", "count", "--topic", "default", "--look", "2")
    assert _shown(told.out)["total"] == ("2+", "at least this many")
    assert "--look N looks further" in told.err
    found = cli("events", "count", "--topic", "default", "--look", "2", "--json").json
    assert found["total"] == {"rows": 2, "exactness": "at_least"}
    assert (found["looked_at"], found["looked_back_to"] is None) == (2, False)


def test_inexact_counts_are_marked(cli: Cli, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "COUNTED", 2)
    monkeypatch.setattr(totals, "_LOOKED", 2)
    for id_ in [emit(sql) for _ in range(5)]:
        settle(sql, id_)
    for _ in range(4):
        emit(sql)
    shown = _shown(cli("events", "count").out)
    assert shown["pending"] == ("3+", "at least this many")
    assert shown["successes"] == ("≈ 3", "from statistics, some seconds old")
    assert shown["total"] == ("6+", "at least this many")
    found = cli("events", "count", "--json").json
    assert found["total"] == {"rows": 6, "exactness": "at_least"}
    assert found["successes"] == {"rows": 3, "exactness": "about"}
