"""`inboxd history`: lists, exports, drops and makes partitions."""

import gzip
from collections.abc import Callable
from pathlib import Path

import anyio
import asyncpg
import pytest

from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.history import day, make_day, parts, settle, store_body

Sql = Callable[..., list[asyncpg.Record]]


@pytest.fixture(autouse=True)
def old_days(database: Database) -> None:
    """Make two days of history, and a body of the older one."""

    async def fill() -> None:
        for days in (40, 20):
            await make_day(database, days)
            await settle(database, days, 30)
        place = await store_body(database, 40, "large")
        await settle(database, 40, 1, "test.large", "events_history", place)

    anyio.run(fill)


def test_list_marks_partitions_that_retention_drops(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cli("history", "list", "--json").json
    days = {table: seconds / 86_400 for table, seconds in found["retention"].items()}
    assert days.pop("receipts") == 30
    assert days == {"events_history": 30, "commands_history": 90, "bodies": 90}, "the defaults"
    (due,) = (each for each in found["partitions"] if each["due"])
    assert (due["partition"], due["state"]) == (f"events_history{day(40)}", "attached")
    assert due["bytes"] > 8192
    assert due["rows"] is None, "without statistics the number is unknown, not 0"
    monkeypatch.setenv("INBOXD_HISTORY__COMMANDS", "forever")
    out = cli("history", "list").err
    assert "events_history: kept for 30 days" in out
    assert "commands_history: kept forever" in out
    assert "bodies: kept forever" in out
    monkeypatch.setenv("INBOXD_HISTORY__EVENTS", "forever")
    monkeypatch.setenv("INBOXD_HISTORY__RECEIPTS", "forever")
    found = cli("history", "list", "--json").json
    assert set(found["retention"].values()) == {None}
    assert not any(each["due"] for each in found["partitions"])


def test_list_shows_used_partitions_and_counts_empty_ones(cli: Cli) -> None:
    every = cli("history", "list", "--json").json["partitions"]
    used = {each["partition"] for each in every if not each["empty"]}
    assert used == {f"events_history{day(40)}", f"events_history{day(20)}", f"bodies{day(40)}"}
    listed = cli("history", "list")
    shown = {each["partition"] for each in every if each["partition"] in listed.out}
    assert shown == used
    last = max(each["from"] for each in every)[:10]
    hidden = len(every) - len(used)
    assert f"{hidden} empty partitions not shown, up to {last}: --all lists them." in listed.err
    listed = cli("history", "list", "--all")
    assert all(each["partition"] in listed.out for each in every)
    assert "empty partition" not in listed.err


def test_exported_day_stays(cli: Cli, sql: Sql, database: Database, tmp_path: Path) -> None:
    part = f"events_history{day(40)}"
    for _ in range(2):
        done = cli("history", "export", part, "--to", tmp_path, "--json")
        assert done.json == {"exported": {part: 31}}
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == [f"inboxd.{part}-2.jsonl.gz", f"inboxd.{part}.jsonl.gz"]
    with gzip.open(tmp_path / files[0], "rt") as lines:
        assert sum('"large"' in line for line in lines) == 1
    assert part in anyio.run(parts, database)
    (line,) = sql("select action, target, count from inboxd.audit order by id limit 1")
    assert tuple(line) == ("export", f"partition {part}", 31)
    refused = cli("history", "export", part, "--to", tmp_path / "missing")
    assert refused.code == 1
    assert "history.export" in refused.err


def test_days_are_dropped_together(cli: Cli, sql: Sql, database: Database) -> None:
    body, part = f"bodies{day(40)}", f"events_history{day(40)}"
    other = f"commands_history{day(40)}"
    before = anyio.run(parts, database)
    refused = cli("history", "drop", body)
    assert refused.code == 1
    assert "2 more" not in refused.err
    assert "commands_history" in refused.err
    assert cli("history", "drop", part, "--dry-run").code == 0
    assert cli("history", "drop", part, stdin="n\n", terminal=True).code == 1
    assert anyio.run(parts, database) == before
    assert sql("select from inboxd.audit") == []
    done = cli("history", "drop", body, part, other, "--json", "--reason", "the disk is full")
    assert done.json == {"dropped": {part: True, other: True, body: True}}
    assert anyio.run(parts, database) == before - {body, part, other}
    lines = sql("select action, target, reason, count from inboxd.audit order by id")
    assert [tuple(line)[:3] for line in lines] == [
        ("drop", f"partition {name}", "the disk is full") for name in (part, other, body)
    ]


@pytest.mark.parametrize("action", ["drop", "export"])
def test_current_or_unknown_partition_is_refused(cli: Cli, action: str, tmp_path: Path) -> None:
    more = ("--to", tmp_path) if action == "export" else ()
    for part, reason in (
        (f"events_history{day(0)}", "not over"),
        ("events_history_19990101", "no partition"),
    ):
        refused = cli("history", action, part, *more)
        assert refused.code == 1
        assert reason in refused.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("all_days")
def test_missing_partitions_are_made(cli: Cli, sql: Sql) -> None:
    assert cli("history", "make", "--days", "16", "--json").json == {"made": 8}
    assert cli("history", "make").out == "Made 0 partitions.\n"
    lines = sql("select action, count from inboxd.audit order by id")
    assert [tuple(line) for line in lines] == [("make", 8), ("make", 0)]


def test_check_reports_the_retention_of_history(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(verdict: str = "ok") -> str:
        lines = {line["subject"]: line for line in cli("check", "--json").json["checks"]}
        assert lines["retention"]["verdict"] == verdict
        assert (lines["retention"]["remedy"] == "") is (verdict == "ok")
        return str(lines["retention"]["found"])

    # The default, which the settings do not confirm, is about to drop the day 40 days ago.
    assert "events_history 30, commands_history 90" in said("warn")
    monkeypatch.setenv("INBOXD_HISTORY__EVENTS", "30d")
    assert "concurrently" in said()
    monkeypatch.setenv("INBOXD_HISTORY__COMMANDS", "forever")
    assert "events_history 30, commands_history for ever" in said()
    monkeypatch.setenv("INBOXD_HISTORY__EVENTS", "forever")
    monkeypatch.setenv("INBOXD_HISTORY__RECEIPTS", "forever")
    assert said() == "history is kept for ever, as set"
