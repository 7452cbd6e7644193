"""`inboxd pause`, `resume` and `paused`: output, lists, status, refusals."""

from collections.abc import Callable
from typing import Any

from inboxd.cli.exits import Exit
from tests.cli.conftest import Cli


def test_pause_is_listed_and_shown_in_status(cli: Cli, sql: Callable[..., list[Any]]) -> None:
    sql("insert into inboxd.commands (queue, type) values ('email', 'a.b'), ('email', 'c.d')")
    sql("insert into inboxd.commands (queue, type) values ('other', 'a.b')")
    sql("insert into inboxd.events (type) values ('a.b')")
    ran = cli("pause", "queue", "email", "--reason", "it moves")
    assert (ran.code, ran.out) == (0, "Paused: queue email, 2 rows waiting\n")
    ran = cli("pause", "type", "a.b", "--json")
    assert ran.json == {"paused": {"kind": "type", "name": "a.b"}, "waiting": 3}

    listed = cli("paused", "--json").json["paused"]
    assert [(row["kind"], row["name"], row["reason"]) for row in listed] == [
        ("queue", "email", "it moves"),
        ("type", "a.b", None),
    ]
    assert "it moves" in cli("paused").out
    found = cli("status", "--json").json
    assert found["paused"] == listed
    assert {(lane["kind"], lane["type"]): lane["paused"] for lane in found["lanes"]} == {
        ("event", "a.b"): True,
        ("command", "a.b"): True,
        ("command", "c.d"): True,
    }
    assert "paused" in cli("status").out

    ran = cli("resume", "queue", "email")
    assert (ran.code, ran.out) == (0, "Resumed: queue email, 2 rows waiting\n")
    assert cli("resume", "type", "a.b", "--json").json["waiting"] == 3
    assert cli("paused", "--json").json == {"paused": []}
    actions = sql("select action, target, reason, count, actor from inboxd.audit order by id")
    assert [tuple(row)[:4] for row in actions] == [
        ("pause", "queue email", "it moves", 2),
        ("pause", "type a.b", None, 3),
        ("resume", "queue email", None, 2),
        ("resume", "type a.b", None, 3),
    ]
    assert all("@" in row["actor"] for row in actions)


def test_status_shows_progress_of_commands(cli: Cli, sql: Callable[..., list[Any]]) -> None:
    sql(
        "insert into inboxd.commands (queue, type, status, worker_id, started_at, progress) values"
        " ('q', 'a.b', 'running', gen_random_uuid(), now() - interval '1 hour',"
        """ '{"done": 30, "of": 120, "note": "pages", "at": "2026-01-01T00:00:00Z"}'),"""
        " ('q', 'c.d', 'running', gen_random_uuid(), now(), '{\"done\": 1.5, \"of\": null}'),"
        " ('q', 'e.f', 'running', gen_random_uuid(), now(), null)"
    )
    found = cli("status", "--json").json["progress"]
    assert [(row["type"], row["done"], row["total"], row["note"]) for row in found] == [
        ("a.b", 30, 120, "pages"),
        ("c.d", 1.5, None, None),
    ]
    out = cli("status").out
    assert "30 of 120 (25 %)" in out
    assert "1h" in out


def test_invalid_pauses_and_resumes_are_refused(cli: Cli) -> None:
    assert cli("pause", "worker", "x").code == Exit.USAGE
    assert cli("pause", "queue", "").code == Exit.USAGE
    ran = cli("resume", "queue", "email")
    assert (ran.code, ran.err) == (
        Exit.PROBLEMS,
        "inboxd: queue 'email' is not paused; `inboxd paused` lists all pauses\n",
    )
    ran = cli("pause", "schedule", "nightly")
    assert ran.code == Exit.UNKNOWN_NAME
    assert "no schedule 'nightly'" in ran.err
