"""`inboxd pause source`: webhooks are held or refused; `resume` releases held ones."""

from collections.abc import Callable
from typing import Any

import anyio

from inboxd.cli.exits import Exit
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.receipts import receipt, receive

Sql = Callable[..., list[Any]]


def test_held_source_is_resumed(cli: Cli, sql: Sql, database: Database) -> None:
    ran = cli("pause", "source", "psp", "--force", "--reason", "it is wrong")
    assert (ran.code, ran.out) == (0, "Paused: source psp, 0 held receipts\n")
    anyio.run(receive, database, *(receipt() for _ in range(3)))
    (listed,) = cli("paused", "--json").json["paused"]
    assert (listed["kind"], listed["name"], listed["mode"]) == ("source", "psp", "hold")
    assert sql("select from inboxd.events") == []
    ran = cli("resume", "source", "psp")
    assert (ran.code, ran.out) == (0, "Resumed: source psp, 3 held receipts\n")
    assert len(sql("select from inboxd.events")) == 3
    actions = sql("select action, target, reason, count from inboxd.audit order by id")
    assert [tuple(row) for row in actions] == [
        ("pause", "source psp", "it is wrong", 0),
        ("resume", "source psp", None, 3),
    ]


def test_source_is_refused_and_then_held(cli: Cli, sql: Sql) -> None:
    assert cli("pause", "source", "psp", "--force", "--refuse").code == 0
    ran = cli("pause", "source", "psp", "--force", "--refuse")
    assert ran.code == Exit.PROBLEMS
    assert cli("paused", "--json").json["paused"][0]["mode"] == "refuse"
    assert cli("pause", "source", "psp", "--force").code == 0
    assert cli("paused", "--json").json["paused"][0]["mode"] == "hold"
    actions = sql("select action from inboxd.audit order by id")
    assert [row[0] for row in actions] == ["refuse", "pause"]


def test_only_a_source_can_refuse(cli: Cli) -> None:
    ran = cli("pause", "queue", "email", "--force", "--refuse")
    assert ran.code == Exit.USAGE
    assert "a queue cannot refuse: only a webhook source can" in ran.err


def test_pause_of_an_undeclared_source_is_refused(cli: Cli, sql: Sql) -> None:
    sql(
        "insert into inboxd.receivers (id, name, host, pid, version, sources)"
        " values (gen_random_uuid(), 'r', 'h', 1, '1', '{psp}')"
    )
    ran = cli("pause", "source", "pps")
    assert ran.code == Exit.UNKNOWN_NAME
    assert "the source 'pps' is not declared; did you mean 'psp'?" in ran.err
    assert cli("pause", "source", "psp").code == 0


def test_source_held_by_settings_is_not_resumed(cli: Cli, sql: Sql, database: Database) -> None:
    sql(
        "insert into inboxd.receivers (id, name, host, pid, version, sources, holds)"
        " values (gen_random_uuid(), 'r', 'h', 1, '1', '{psp}', '{psp}')"
    )
    anyio.run(receive, database, receipt(hold=True))
    ran = cli("resume", "source", "psp")
    assert ran.code == Exit.PROBLEMS
    assert 'set inbound.webhooks.psp.paused = "no"' in ran.err
    assert cli("pause", "source", "psp").code == 0
    ran = cli("resume", "source", "psp")
    assert (ran.code, sql("select from inboxd.events")) == (0, [])
    sql("update inboxd.receivers set state = 'stopped'")
    ran = cli("resume", "source", "psp")
    assert (ran.code, len(sql("select from inboxd.events"))) == (0, 1)


def test_resume_of_an_unpaused_source_is_refused(cli: Cli) -> None:
    cli("pause", "source", "psp", "--force")
    ran = cli("resume", "source", "pps")
    assert ran.code == Exit.PROBLEMS
    assert "source 'pps' is not paused; did you mean 'psp'?" in ran.err
