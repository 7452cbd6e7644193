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


def test_a_list_shows_next_and_last_run_policy_and_source(
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


def test_check_counts_them_and_names_what_is_wrong(
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
