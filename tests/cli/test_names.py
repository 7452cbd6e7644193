"""Undeclared names: refused with a suggestion, accepted with --force, remarked on in lists."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.cli.conftest import Cli
from tests.support import Database

Sql = Callable[..., list[Any]]

_DECLARE = """
insert into inboxd.declared_types (kind, type, queue) values
    ('event', 'order.paid', null), ('command', 'shop.send_receipt', 'http');
insert into inboxd.topics (name, mode, source) values ('loyalty', 'sequential', 'plugin shop'),
    ('chunks', 'batch', 'plugin shop');
insert into inboxd.subscriptions (topic, type) values ('loyalty', 'order.paid');
insert into inboxd.schedules (name, source, cron, zone, missed, kind, type, schema_version,
                              priority, payload, next_at)
    values ('shop.daily_report', 'plugin shop', '0 3 * * *', 'UTC', 'once', 'command',
            'shop.send_receipt', 1, 0, '{}', now());
"""


@pytest.fixture
def declared(sql: Sql) -> None:
    """Write the declarations of a shop's worker."""
    for statement in _DECLARE.strip(";\n").split(";\n"):
        sql(statement)


_TYPE = "'shop.send_receipt'"


@pytest.mark.usefixtures("declared")
def test_undeclared_name_is_refused_with_a_suggestion(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.commands (type, queue, status) values ('a.b', 'q', 'failed')")
    for line, meant in (
        ("pause type shop.send_recept", _TYPE),
        ("pause queue htp", "'http'"),
        ("pause topic loyalti", "'loyalty'"),
        ("pause schedule shop.daily_repot", "'shop.daily_report'"),
        ("emit order.paidd", "'order.paid'"),
        ("emit order.paid --topic loyalti", "'loyalty'"),
        ("send shop.send_recept", _TYPE),
        ("send shop.send_receipt --queue htp", "'http'"),
        ("commands replay --type shop.send_recept", _TYPE),
        ("commands replay --type shop.send_recept --dry-run", _TYPE),
        ("commands dismiss --queue htp --yes", "'http'"),
        ("commands cancel --type shop.send_recept", _TYPE),
        ("events replay --type order.paidd", "'order.paid'"),
        ("events dismiss --topic loyalti", "'loyalty'"),
        ("topics show loyalti", "'loyalty'"),
        ("topics chunks loyalti", "'loyalty'"),
        ("topics blocked --topic loyalti", "'loyalty'"),
        ("topics flush loyalti", "'loyalty'"),
        ("topics unsubscribe loyalti", "'loyalty'"),
        ("queues show htp", "'http'"),
    ):
        result = cli(*line.split())
        assert (result.code, result.out) == (66, ""), line
        assert f"did you mean {meant}?" in result.err, line
        if "--force" in result.err:
            assert "--force" in cli(*line.split()[:2], "--help").out, line
    assert not sql("select from inboxd.controls")
    assert not sql("select from inboxd.events")
    assert not sql("select from inboxd.audit")
    assert [row[0] for row in sql("select type from inboxd.commands")] == ["a.b"]


@pytest.mark.usefixtures("declared")
def test_force_accepts_undeclared_names_and_known_names_need_none(cli: Cli, sql: Sql) -> None:
    for line in (
        "pause type shop.send_recept --force",
        "pause queue htp --force",
        "emit order.paidd --force",
        "send shop.shp --queue htp --force",
        "commands replay --type shop.nothing --force",
        "events dismiss --topic nothing --force",
        "pause topic loyalty",
        "pause queue default",
        "emit order.paid",
        "send shop.send_receipt --queue http",
        "commands replay --type shop.send_receipt",
        "commands cancel --type shop.shp",
        "pause type shop.never_sent --force",
    ):
        result = cli(*line.split())
        assert result.code == 0, (line, result.err)
    # Names of existing rows need no --force.
    sql("insert into inboxd.commands (type, queue, status) values ('old.type', 'old', 'failed')")
    assert cli("pause", "type", "old.type").code == 0
    assert cli("pause", "queue", "old").code == 0
    assert cli("commands", "replay", "--queue", "old", "--tenant", "nobody").code == 0


@pytest.mark.usefixtures("declared")
def test_empty_list_of_an_undeclared_name_has_a_remark(cli: Cli) -> None:
    for line, meant in (
        ("commands list --type shop.send_recept", _TYPE),
        ("commands list --queue htp", "'http'"),
        ("events list --topic loyalti", "'loyalty'"),
    ):
        result = cli(*line.split(), "--json")
        assert result.code == 0
        assert result.json["next"] is None
        assert f"did you mean {meant}?" in result.err
    assert cli("commands", "list", "--type", "shop.send_receipt").err == ""
    paused = cli("pause", "queue", "http")
    assert paused.code == 0
    refused = cli("resume", "queue", "htp")
    assert refused.code == 1
    assert "queue 'htp' is not paused; did you mean 'http'?" in refused.err


def test_refusal_before_the_first_declaration_names_declare(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = cli("emit", "order.paid")
    assert refused.code == 66
    assert "no event type is declared yet (run `inboxd declare`)" in refused.err
    assert "--force" in refused.err
    # A queue with a section in the settings needs no --force.
    monkeypatch.setenv("INBOXD_QUEUES__BULK__CONCURRENCY", "3")
    assert cli("pause", "queue", "bulk").code == 0


@pytest.fixture
def producer(sql: Sql, database: Database) -> Iterator[str]:
    """Make a login with the producer's role; returns its URL."""
    name = f"{database.name}_producer"
    sql(f"create role {name} login in role inboxd_producer")
    parts = urlsplit(database.dsn)
    yield urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
    sql(f"drop owned by {name}")
    sql(f"drop role {name}")


@pytest.mark.direct("the pooler knows one role")
def test_producers_role_may_write_undeclared_names(
    cli: Cli, sql: Sql, producer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__DSN", producer)
    assert cli("emit", "order.paid").code == 0
    assert cli("send", "shop.send_receipt").code == 0
    assert [row[0] for row in sql("select type from inboxd.events")] == ["order.paid"]
    refused = cli("status")
    assert refused.code == 69
    assert "permission denied" in refused.err
    assert "members of inboxd_viewer may look" in refused.err
    assert "GRANT that role TO this one" in refused.err
    assert "daemon's role" not in refused.err
