"""Logical replication copies rows, and leaves sequences at their beginning."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import asyncpg

from tests.cli.conftest import Cli
from tests.cli.troubles import Report
from tests.databases.conftest import At, Login
from tests.support.rows import SQL

Sql = Callable[..., list[asyncpg.Record]]

_SEQUENCES = """
select oid::regclass::text from pg_class
 where relnamespace = 'inboxd'::regnamespace and relkind = 'S'
"""
# One row of each table that has a sequence.
_ROWS = """
insert into inboxd.events (type) values ('a.a');
insert into inboxd.commands (type, queue, payload)
values ('a.a', 'default', jsonb_build_object('text', repeat('x', 5000)));
select inboxd.emit_event('a.a', dedup_key => 'k') from generate_series(1, 2);
select inboxd.open_batch('one');
insert into inboxd.held_receipts (source, receipt_id, events)
values ('bank', gen_random_uuid(), '[]');
insert into inboxd.held_sources (source) values ('bank');
insert into inboxd.schedules (name, kind, type, cron, zone, missed, source, next_at,
                              schema_version, priority, payload)
values ('daily', 'event', 'a.a', '0 0 * * *', 'UTC', 'skip', 'plugin', now(), 1, 0, '{}');
insert into inboxd.audit (actor, action, target, count) values ('me', 'pause', 'x', 1);
insert into inboxd.actions (kind, verb, selection, actor, audit_id, status, starts_at, next_at,
                            above, first_id, last_id, counted, whole)
values ('command', 'replay', '{}', 'me', 0, 'scheduled', 'infinity', 'infinity', 0, 1, 1, 1, true);
insert into inboxd.notices (cause, kind, subject) values ('backlog', 'command', 'x');
insert into inboxd.breaker_changes (name, state) values ('brevo', 'open');
insert into inboxd.stats_written (minute, kind, lane, type, outcome, after, count)
values (now(), 'event', 'default', 'a.a', 'failed', '', 1);
insert into inboxd.stats_series (kind, lane, type, outcome, after)
values ('event', 'default', 'a.a', 'failed', '')
"""
_SETTLED = """
insert into inboxd.events_history
       (id, event_id, topic, mode, type, schema_version, payload, status, attempts, crashes,
        run_at, occurred_at, created_at, updated_at, finished_at)
select 50, inboxd.new_uuid(), 'default', 'single', 'a', 1, '{}', 'succeeded', 1, 0,
       now(), now(), now(), now(), now()
"""


def _known(sql: Sql) -> set[str]:
    now = datetime.now(UTC)
    rows = sql(SQL["doctor_sequences"], now - timedelta(days=1), now + timedelta(days=1))
    return {f"inboxd.{row['name']}" for row in rows}


def test_sequence_behind_its_rows_is_named(cli: Cli, sql: Sql, at: At, login: Login) -> None:
    for statement in _ROWS.split(";\n"):
        sql(statement)
    Report(cli).one("sequences", "ok")
    names = {name for (name,) in sql(_SEQUENCES)}
    assert names == _known(sql)
    for name in names:
        sql(f"alter sequence {name} restart")
    behind = Report(cli).of("sequences")
    numbered = {name for name in names if not name.endswith("_flag")}
    assert {each["found"].partition(" ")[0] for each in behind} == numbered
    assert {each["verdict"] for each in behind} == {"critical"}
    lines = [each for each in cli("check", "--json").json["checks"] if each["verdict"] == "fail"]
    assert {each["subject"] for each in lines} == {"sequences"}
    told = Report(at(login("inboxd_viewer"))).of("sequences")
    assert len(told) == len(numbered) - 2, "a viewer reads neither bodies nor duplicates"
    for each in behind:
        sql(each["remedy"].removeprefix("run: "))
    Report(at(login("inboxd_worker"))).one("sequences", "ok")


def test_numbers_in_history_count_too(cli: Cli, sql: Sql) -> None:
    sql(_SETTLED)
    sql("select setval('inboxd.events_id_seq', 49)")
    found = Report(cli).one("sequences", "critical", "is at 49, but rows have numbers up to 50")
    assert found["remedy"] == "run: SELECT setval('inboxd.events_id_seq', 50);"
    for ahead in ("50", "51, false"):  # the second as after ALTER SEQUENCE … RESTART
        sql(f"select setval('inboxd.events_id_seq', {ahead})")
        Report(cli).one("sequences", "ok")
    sql("alter sequence inboxd.events_id_seq restart with 50")
    Report(cli).one("sequences", "critical", "is at 49, but rows have numbers up to 50")


def test_missing_or_unreadable_sequence_is_named(sql: Sql, at: At, login: Login) -> None:
    sql("drop sequence inboxd.commands_flag")
    cli = at(login("inboxd_worker"))
    Report(cli).one("sequences", "critical", "inboxd.commands_flag is missing")
    sql("revoke execute on function inboxd.number_given from inboxd_viewer")
    Report(at(login("inboxd_viewer"))).one("sequences", "notice", "not checked", "inboxd check")


def test_only_sequences_are_read_by_name(sql: Sql) -> None:
    """The function has its owner's rights, and gets a name from its caller."""
    for name in ("events", "no_such", "events_id_seq; select 1", 'events_id_seq"'):
        assert sql("select inboxd.number_given($1)", name)[0][0] is None
    assert sql("select inboxd.number_given('events_flag')")[0][0] is not None
