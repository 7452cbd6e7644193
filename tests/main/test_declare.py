"""`inboxd declare` declares as a worker does, and moves waiting events into their topics."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.support import Database

Sql = Callable[..., list[Any]]

DECLARED = """
select (select count(*) from inboxd.topics), (select count(*) from inboxd.subscriptions),
       (select count(*) from inboxd.declared_types), (select count(*) from inboxd.schedules),
       (select count(*) from inboxd.intakes), (select last_value from inboxd.events_id_seq)
"""
WAIT = """
insert into inboxd.events (type, payload)
select 'test.turn', jsonb_build_object('key', n % 3, 'n', n) from generate_series(1, 12) n
"""


@pytest.fixture
def worker_role(sql: Sql, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commands use a login that has only the worker's role."""
    name = f"{database.name}_daemon"
    sql(f"create role {name} login in role inboxd_worker")
    parts = urlsplit(database.dsn)
    netloc = f"{name}@{parts.netloc.rpartition('@')[2]}"
    monkeypatch.setenv("INBOXD_DATABASE__DSN", urlunsplit(parts._replace(netloc=netloc)))
    yield
    sql(f"drop owned by {name}")
    sql(f"drop role {name}")


@pytest.mark.direct("the pooler knows one role")
@pytest.mark.usefixtures("worker_role")
def test_declare_as_a_job_of_a_deployment(cli: Cli, sql: Sql) -> None:
    """A dry run, a real run, and a second one; with the worker's role."""
    sql(WAIT)
    before = sql(DECLARED)
    dry = cli("declare", "--dry-run", "--json").json
    assert dry["waiting"] == [{"type": "test.turn", "events": 12, "topics": ["ordered"]}]
    assert {"kind": "topic", "name": "ordered", "change": "new"} in dry["changes"]
    assert {"kind": "subscription", "name": "ordered test.turn", "change": "new"} in dry["changes"]
    assert {each["kind"] for each in dry["changes"]} > {"command type", "event type"}
    assert sql(DECLARED) == before, "nothing was changed"
    done = cli("declare", "--json").json
    assert done == {"changes": dry["changes"], "taken": 12, "not_finished": []}
    rows = sql("select topic, status, (payload ->> 'n')::int as n from inboxd.events order by id")
    assert [tuple(row) for row in rows] == [("ordered", "waiting", n) for n in range(1, 13)]
    again = cli("declare")
    assert (again.code, again.out) == (0, "Nothing has changed.\n")
    assert cli("declare", "--dry-run").out == "Nothing would change.\n"


def test_declare_prints_its_changes(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.topics (name, mode, source) values ('ordered', 'single', 'by hand')")
    sql(WAIT)
    told = cli("declare", "--dry-run").out
    assert "mode sequential, was single" in told
    assert "would go to" in told
    assert "12 waiting events moved into their topics." in cli("declare").out


def test_writers_that_delay_an_intake_are_named(cli: Cli, sql: Sql, database: Database) -> None:
    with psycopg.connect(database.dsn) as producer:
        producer.execute(WAIT)
        told = cli("declare", "--wait", "100ms", "--json")
        assert (told.code, told.json["taken"]) == (0, 0)
        assert "ordered" in told.json["not_finished"]
        sql("update inboxd.intakes set declared_at = now() - interval '10 minutes'")
        findings = [
            each
            for each in cli("doctor", "--json").json["findings"]
            if each["subject"] == "intakes" and "topic ordered " in each["found"]
        ]
        assert [each["verdict"] for each in findings] == ["warning"]
        assert str(producer.info.backend_pid) in findings[0]["found"]
        shown = cli("topics", "show", "ordered", "--json").json
        assert shown["held_for"] >= 600
    sql("select 1")
    assert cli("declare", "--json").json["changes"] == []
    assert sql("select count(*) from inboxd.intakes where finished_at is null")[0][0] == 0
    assert sql("select count(*) from inboxd.events where topic = 'ordered'")[0][0] == 12
