"""`inboxd schedules list`, and schedules in `inboxd check`."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Cli

INSERT = (
    "insert into inboxd.schedules (name, source, cron, zone, missed, kind, type, schema_version,"
    " priority, payload, next_at, last_at, undeclared_at) values"
    " ('a', 'settings', '0 3 * * *', 'Europe/Berlin', 'once', 'command', 'x.y', 1, 0, '{}',"
    "  '2100-01-02 02:00Z', '2100-01-01 02:00Z', null),"
    " ('b', 'plugin p', '0 3 * * *', 'UTC', 'all', 'event', 'x.z', 1, 0, '{}', now(), null, now())"
)


def test_list_shows_next_and_last_run_policy_and_source(
    cli: Cli, sql: Callable[..., list[Any]]
) -> None:
    sql(INSERT)
    lines = cli("schedules", "list").out.splitlines()
    (one,) = [line for line in lines if line.startswith((" a", "a"))]
    for part in ("0 3 * * *", "Europe/Berlin", "command x.y", "once", "settings"):
        assert part in one
    assert "2100-01-02 02:00:00" in one
    assert "2100-01-01 02:00:00" in one
    assert any("plugin p" in line and "undeclared" in line for line in lines)
    assert cli("pause", "schedule", "a").out == "Paused: schedule a\n"
    listed = cli("schedules", "list", "--json").json["schedules"]
    assert [(row["name"], row["paused_at"] is not None) for row in listed] == [
        ("a", True),
        ("b", False),
    ]


def test_schedule_that_is_run_now_keeps_its_next_time(
    cli: Cli, sql: Callable[..., list[Any]]
) -> None:
    sql(INSERT)
    told = cli("schedules", "run", "a", "--reason", "missed", "--json").json
    assert told["schedule"] == "a"
    (row,) = sql("select type, origin_kind from inboxd.commands")
    assert tuple(row) == ("x.y", "schedule")
    (times,) = sql("select next_at, last_at > '2026-01-01' from inboxd.schedules where name = 'a'")
    assert (times[0].year, times[1]) == (2100, True)
    assert cli("schedules", "run", "b").code != 0  # no worker declares it
    assert "there is no schedule 'c'" in cli("schedules", "run", "c").err
    actions = sql("select action, target, reason from inboxd.audit")
    assert [tuple(each) for each in actions] == [("run", "schedule a", "missed")]


ADD = ("schedules", "add", "cleanup", "*/15 * * * *", "--command", "x.y", "--force")


def test_schedule_is_added_changed_and_removed(cli: Cli, sql: Callable[..., list[Any]]) -> None:
    payload = '{"n": 12345678901234567890123}'
    options = ("--zone", "Europe/Berlin", "--payload", payload, "--queue", "q", "--priority", "7")
    told = cli(*ADD, *options, "--missed", "all", "--reason", "tidy", "--json").json
    assert told["schedule"] == "cleanup"
    (row,) = sql("select * from inboxd.schedules")
    kept = (row["cron"], row["zone"], row["missed"], row["kind"], row["type"], row["lane"])
    assert kept == ("*/15 * * * *", "Europe/Berlin", "all", "command", "x.y", "q")
    assert (row["priority"], row["added_at"] is not None) == (7, True)
    assert "is a schedule 'cleanup' already" in cli(*ADD).err
    (listed,) = [
        line for line in cli("schedules", "list", "--wide").out.splitlines() if "x.y" in line
    ]
    assert "added by" in listed

    sql("update inboxd.schedules set next_at = '2100-01-01'")
    changed = cli("schedules", "change", "cleanup", "--priority", "-1", "--json").json
    assert changed["next_at"].startswith("2100-01-01")  # the next time stays
    cli("pause", "schedule", "cleanup")
    told = cli("schedules", "change", "cleanup", "--cron", "0 * * * *", "--json").json
    assert not told["next_at"].startswith("2100")
    (row,) = sql("select priority, cron, payload->>'n' n, lane from inboxd.schedules")
    assert tuple(row) == (-1, "0 * * * *", "12345678901234567890123", "q")

    refused = cli("schedules", "change", "cleanup", "--queue", "typo")
    assert "the queue 'typo' is not declared" in refused.err
    assert (
        "an event has a topic"
        in cli("schedules", "change", "cleanup", "--topic", "t", "--force").err
    )

    assert cli("schedules", "remove", "cleanup").out == "Removed: schedule cleanup\n"
    assert not sql("select from inboxd.schedules")
    assert not sql("select from inboxd.controls")
    actions = [tuple(row) for row in sql("select action, reason from inboxd.audit order by id")]
    assert actions == [
        ("add to */15 * * * * Europe/Berlin", "tidy"),
        ("change to */15 * * * * Europe/Berlin", None),
        ("pause", None),
        ("change to 0 * * * * Europe/Berlin", None),
        ("remove", None),
    ]


def test_options_of_a_schedule_are_cleared(cli: Cli, sql: Callable[..., list[Any]]) -> None:
    given = {
        "--payload": '{"n": 1}',
        "--queue": "q",
        "--priority": "7",
        "--tenant": "acme",
        "--time-field": "at",
        "--title": "Tidy",
        "--description": "What it is for",
    }
    assert cli(*ADD, *(word for pair in given.items() for word in pair)).code == 0
    cleared = [word for name in given for word in ("--clear", name.removeprefix("--"))]
    assert cli("schedules", "change", "cleanup", *cleared, "--reason", "plain").code == 0
    (row,) = sql(
        "select payload, lane, priority, tenant, time_field, title, description, cron"
        " from inboxd.schedules"
    )
    assert tuple(row) == ("{}", None, 0, None, None, None, None, "*/15 * * * *")
    for words, told in (
        (("--clear", "cron"), "'cron' cannot be cleared: --clear takes payload, topic"),
        (("--clear", "tenant", "--tenant", "b"), "give --tenant or --clear tenant, not both"),
        (("--clear", "topic"), "an event has a topic"),
    ):
        refused = cli("schedules", "change", "cleanup", *words)
        assert (refused.code, told in refused.err) == (2, True), refused.err
    assert sql("select count(*) from inboxd.audit")[0][0] == 2


def test_declared_schedule_cannot_be_changed(cli: Cli, sql: Callable[..., list[Any]]) -> None:
    sql(INSERT)
    before = [tuple(row) for row in sql("select * from inboxd.schedules order by id")]
    for command in (("change", "a", "--cron", "* * * * *"), ("remove", "a")):
        refused = cli("schedules", *command)
        assert refused.code != 0
        assert "the schedule 'a' is declared by settings: change it there" in refused.err
    assert "there is no schedule 'c'" in cli("schedules", "remove", "c").err
    assert [tuple(row) for row in sql("select * from inboxd.schedules order by id")] == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("a", "0 3 * *", "--command", "x"), "is wrong: give five fields"),
        (("a", "0 3 * * *", "--command", "x", "--zone", "Mars"), "Mars"),
        (("a", "0 3 * * *"), "give --event TYPE or --command TYPE"),
        (("a", "0 3 * * *", "--event", "x", "--command", "y"), "give --event TYPE or --command"),
        (("a", "0 3 * * *", "--event", "x", "--queue", "q"), "an event has a topic"),
        (
            ("a", "0 3 * * *", "--event", "x", "--priority", "1"),
            "priority are a command's",
        ),
        (("a", "0 3 * * *", "--event", "x", "--expires-after", "1h"), "does not expire"),
        (("a", "0 3 * * *", "--command", "x", "--expires-after", "0s"), "more than 0 s"),
        (("a", "0 3 * * *", "--command", "x", "--missed", "never"), "never"),
        (("a", "0 3 * * *", "--command", "x", "--payload", "{"), "is not valid JSON"),
        (("a", "0 3 * * *", "--event", "x", "--payload", "[]", "--time-field", "at"), "an object"),
        (("a b", "0 3 * * *", "--event", "x"), "must be without spaces"),
        (("a", "0 3 * * *", "--event", "x", "--payload", "1", "--time-field", "at"), "an object"),
    ],
)
def test_invalid_schedules_are_refused(
    cli: Cli, sql: Callable[..., list[Any]], options: tuple[str, ...], told: str
) -> None:
    refused = cli("schedules", "add", *options, "--force")
    assert (refused.code, told in refused.err) == (2, True), refused.err
    assert not sql("select from inboxd.schedules")


def test_schedule_of_an_undeclared_type_needs_force(cli: Cli) -> None:
    refused = cli(*ADD[:-1])
    assert "the command type 'x.y' is not declared" in refused.err
    assert cli(*ADD).code == 0


def test_check_counts_schedules_and_names_mistakes(
    cli: Cli, sql: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def plugins() -> tuple[str, str]:
        lines = cli("check", "--json").json["checks"]
        (line,) = [line for line in lines if line["subject"] in ("plugins", "settings")]
        return line["verdict"], line["found"]

    sql(INSERT)
    warned = [
        line["found"]
        for line in cli("check", "--json").json["checks"]
        if line["subject"] == "schedules"
    ]
    assert warned == ["'b' (plugin p) is not sent: no living worker declares it"]

    good = '{"tick": {"cron": "* * * * *", "command": "test.noop"}}'
    monkeypatch.setenv("INBOXD_SCHEDULES", good)
    verdict, found = plugins()
    assert verdict == "ok"
    assert found.endswith(", 1 schedule")
    monkeypatch.setenv("INBOXD_SCHEDULES", good.replace("noop", "nope"))
    verdict, found = plugins()
    assert verdict == "fail"
    assert found == (
        "[schedules.\"tick\"]: no plugin declares the command type 'test.nope'; "
        "did you mean 'test.noop'?"
    )
