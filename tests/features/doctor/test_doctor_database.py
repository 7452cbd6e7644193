"""`inboxd doctor` on schema, tables and server: findings, and statements that repair them."""

from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread
import asyncpg
import psycopg
import pytest

from inboxd.cli.exits import Exit
from inboxd.operations.doctor import GROUPS, Levels, thresholds
from tests.cli.conftest import Cli
from tests.cli.troubles import Report, Sql
from tests.support import Database, create_migrated, eventually, temporary_server
from tests.support.history import day

AT_ONCE = Levels(notice=0, warning=None, critical=None)


# ------------------------------------------------------------------------------------- schema


def test_changes_of_the_schema_are_found(cli: Cli, sql: Sql) -> None:
    sql("drop index inboxd.commands_lane")
    sql("alter table inboxd.audit add note text")
    report = Report(cli)
    report.one("drift", "critical", "inboxd.commands_lane is missing", "CREATE INDEX commands_lane")
    report.one("drift", "notice", "audit.note")


_BROKEN = {
    "drop index inboxd.commands_lane": "critical",
    "drop index inboxd.events_history_event_id": "critical",
    "drop index inboxd.replays_at; create index replays_at on inboxd.replays (at desc)": "warning",
    "alter table inboxd.batches drop constraint batches_name_check": "critical",
    "alter table inboxd.declared_types drop constraint declared_types_pkey": "critical",
    "alter table inboxd.stats alter count type numeric, alter count drop not null": "warning",
    "alter table inboxd.events alter topic set default 'other'": "warning",
    "alter table inboxd.audit alter count set default 0": "warning",
    "alter table inboxd.audit drop reason": "critical",
    "alter table inboxd.workers set (fillfactor = 90, autovacuum_enabled = off)": "notice",
    "alter table inboxd.limits reset (fillfactor)": "notice",
    "alter table inboxd.audit set (fillfactor = 90)": "notice",
    "create or replace function inboxd.new_uuid() returns uuid language sql"
    " as 'select gen_random_uuid()'": "warning",
    "alter function inboxd.make_partitions(integer) security invoker": "warning",
    "drop function inboxd.make_partitions(integer)": "critical",
    "alter table inboxd.events disable trigger events_body": "critical",
    "alter table inboxd.commands enable replica trigger commands_queue": "critical",
    "alter table inboxd.commands enable always trigger commands_queue": "warning",
    "drop trigger events_wait on inboxd.events": "critical",
    "create or replace trigger commands_body before insert on inboxd.commands"
    " for each row execute function inboxd.put_body()": "warning",
    "drop function inboxd.put_body() cascade": "critical",
}


@pytest.mark.parametrize("change", _BROKEN)
def test_printed_statements_repair_the_schema(
    cli: Cli, sql: Sql, database: Database, change: str
) -> None:
    anyio.run(database.execute, change)
    verdicts = set()
    for _ in range(2):  # first a function, then the triggers that were dropped with it
        report = Report(cli)
        for each in [*report.of("version"), *report.of("drift")]:
            verdicts.add(each["verdict"])
            _, run, statement = each["remedy"].partition("run: ")
            if statement == "inboxd migrate":
                assert cli("migrate").code == 0
            elif each["verdict"] != "ok":
                assert run, each
                anyio.run(database.execute, statement)
    assert _BROKEN[change] in verdicts
    Report(cli).one("drift", "ok")


def test_long_statement_is_printed_only_as_json(cli: Cli, sql: Sql) -> None:
    sql("alter function inboxd.make_partition(text, date) security invoker")
    assert "run: CREATE OR REPLACE FUNCTION inboxd.make_partition(" in (out := cli("doctor").out)
    assert "… (the whole statement: --json)" in out
    assert "ATTACH PARTITION" not in out
    Report(cli).one("drift", "warning", "ATTACH PARTITION", "inboxd.make_partition(text,date)")


def test_function_of_older_release_is_found(cli: Cli, sql: Sql) -> None:
    sql("create function inboxd.older(text) returns void language sql as 'select'")
    sql("insert into inboxd.schema_functions (name, checksum) values ('older', '')")
    found = "inboxd.older(text) is left over from an older release"
    Report(cli).one("drift", "notice", found, "run: DROP FUNCTION inboxd.older(text);")


def test_invalid_index_is_found(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.events (type) values ('test.a'), ('test.a')")
    with pytest.raises(asyncpg.UniqueViolationError):
        sql("create unique index concurrently broken on inboxd.events (type)")
    report = Report(cli)
    report.one("indexes", "critical", "broken", "REINDEX INDEX CONCURRENTLY inboxd.broken;")


def test_missing_partitions_are_found(cli: Cli, sql: Sql) -> None:
    for row in sql(r"SELECT relname FROM pg_class WHERE relname ~ 'bodies_\d{8}$'"):
        sql(f"DROP TABLE inboxd.{row['relname']}")
    Report(cli).one("partitions", "critical", "no partition for today")


def test_overdue_history_is_found(cli: Cli, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INBOXD_HISTORY__EVENTS", "forever")
    Report(cli).one("retention", "ok", "events for ever")
    monkeypatch.delenv("INBOXD_HISTORY__EVENTS")
    sql(
        "create table inboxd.events_history_20200101 partition of inboxd.events_history"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    report = Report(cli)
    report.one("retention", "warning", "events for 30d", "1 partition overdue", "leader")
    report.one("drift", "ok")
    sql("alter table inboxd.events_history detach partition inboxd.events_history_20200101")
    report = Report(cli)
    report.one("drift", "ok")
    kept = report.one("partitions", "notice", "events_history_20200101", "ATTACH PARTITION")
    assert "drop" not in kept["remedy"].lower(), "an operator may keep it"
    sql(
        "insert into inboxd.retired (part, parent, low, high) values"
        " ('events_history_20200101', 'events_history', '2020-01-01Z', '2020-01-02Z')"
    )
    report = Report(cli)
    report.one("drift", "ok")
    assert len(report.of("partitions")) == 1, "retention detached it, and will drop it"


@pytest.mark.usefixtures("all_days")
@pytest.mark.parametrize("days", [0, 5])
def test_detached_partition_of_a_coming_day_is_found(cli: Cli, sql: Sql, days: int) -> None:
    part = f"events_history{day(-days)}"
    sql(f"alter table inboxd.events_history detach partition inboxd.{part}")
    report = Report(cli)
    words = ("no partition for today", "critical") if days == 0 else ("4 days ahead", "warning")
    found = report.one("partitions", words[1], words[0], f"names of needed partitions: {part}")
    assert f"ALTER TABLE inboxd.{part} RENAME TO {part}_kept;" in found["remedy"]
    report.one("drift", "ok")
    refused = cli("history", "make")
    assert refused.code == 1
    assert f"{part} is there, detached" in refused.err
    assert [tuple(line) for line in sql("select action, count from inboxd.audit")] == [("make", 0)]
    checked = {each["subject"]: each for each in cli("check", "--json").json["checks"]}
    assert checked["partitions"]["verdict"] == ("fail" if days == 0 else "warn")
    remedy = found["remedy"]
    sql(remedy[remedy.index("ALTER") : remedy.index(";")])
    report = Report(cli)
    report.one("partitions", "ok", "14 days ahead")
    assert not [each for each in report.of("drift") if "drop" in each["remedy"]]
    sql(f"alter table inboxd.events_history detach partition inboxd.{part}")
    sql(found["remedy"].rpartition("creates a new one: ")[2])
    assert cli("history", "make", "--json").json == {"made": 1}
    report = Report(cli)
    report.one("partitions", "ok", "14 days ahead")
    kept = report.one("drift", "notice", f"{part}_kept")
    assert "drop" not in kept["remedy"], "its rows are history"


def test_interrupted_detach_is_found(
    cli: Cli, sql: Sql, other: psycopg.Connection, database: Database
) -> None:
    sql(
        "create table inboxd.bodies_20200101 partition of inboxd.bodies"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    other.execute("select from inboxd.bodies_20200101")
    detach = "alter table inboxd.bodies detach partition inboxd.bodies_20200101 concurrently"
    impatient = psycopg.connect(database.dsn, autocommit=True, options="-c lock_timeout=100ms")
    with impatient, pytest.raises(psycopg.errors.LockNotAvailable):
        impatient.execute(detach)
    other.rollback()
    report = Report(cli)
    report.one("partitions", "warning", "DETACH PARTITION inboxd.bodies_20200101 FINALIZE;")


@pytest.mark.parametrize("role", ["owner", "modest"])
@pytest.mark.direct("the pooler knows one role")
def test_waiting_detach_is_not_reported_as_interrupted(
    cli: Cli,
    sql: Sql,
    other: psycopg.Connection,
    database: Database,
    role: str,
    request: pytest.FixtureRequest,
) -> None:
    """Retention's detach waits for an old reader; also for a role that cannot see queries."""
    sql(
        "create table inboxd.bodies_20200101 partition of inboxd.bodies"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    if role == "modest":
        request.getfixturevalue("modest")
    other.execute("select from inboxd.bodies")
    detach = "alter table inboxd.bodies detach partition inboxd.bodies_20200101 concurrently"
    reports: list[Report] = []

    async def look() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, sql, detach)

            async def has_begun() -> bool:
                begun = "select from pg_inherits where inhdetachpending"
                waits = "select from pg_locks where locktype = 'virtualxid' and not granted"
                return bool(await database.fetch(begun) and await database.fetch(waits))

            await eventually(has_begun)
            reports.append(await anyio.to_thread.run_sync(Report, cli))
            other.rollback()

    anyio.run(look)
    pid = other.info.backend_pid
    words = ("detach of inboxd.bodies_20200101", f"is waiting for pid {pid} (report)")
    reports[0].one("partitions", "notice", *words, "pg_terminate_backend")
    assert len(reports[0].of("partitions")) == 2, "the detach is not reported as interrupted"


def test_missing_schema_is_found(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__SCHEMA", "nowhere")
    report = Report(cli)
    assert report.code == 1
    report.one("version", "critical", "inboxd migrate")
    assert len(report.findings) == 1, "the other checks need the schema"


# ------------------------------------------------------------------------------------- tables


@pytest.fixture
def other(database: Database) -> Iterator[psycopg.Connection]:
    """Open another session, directly on the server."""
    with psycopg.connect(database.dsn, application_name="report") as connection:
        yield connection


def test_holder_of_the_oldest_snapshot_is_found(
    cli: Cli, other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "SNAPSHOT_SECONDS", Levels(0.2, None, None))
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    other.execute("select 1 from inboxd.events, pg_sleep(0.3)")
    pid = other.info.backend_pid
    end = f"pg_terminate_backend({pid})"
    Report(cli).one("oldest snapshot", "notice", f"pid {pid}", "report", "idle in transaction", end)
    other.rollback()
    Report(cli).one("oldest snapshot", "ok")


def test_dead_rows_without_autovacuum_are_found(cli: Cli, sql: Sql) -> None:
    sql("alter table inboxd.events set (autovacuum_enabled = false)")
    sql("insert into inboxd.events (type) select 'test.a' from generate_series(1, 50000)")
    sql("delete from inboxd.events")

    async def seen() -> bool:
        report = await anyio.to_thread.run_sync(Report, cli)
        (found,) = report.of("dead rows: events")
        return bool(found["figure"] >= 50_000)

    anyio.run(eventually, seen)
    report = Report(cli)
    remedy = "RESET (autovacuum_enabled); VACUUM inboxd.events;"
    report.one("dead rows: events", "warning", "autovacuum is off", remedy)
    report.one("drift", "notice", "autovacuum_enabled=false")
    sql("vacuum inboxd.events")
    assert Report(cli).of("dead rows: events")[0]["figure"] < 50_000


def test_lock_is_found_and_other_checks_run(
    cli: Cli, other: psycopg.Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "LOCK_WAIT_SECONDS", AT_ONCE)
    monkeypatch.setattr(thresholds, "STATEMENT_SECONDS", 0.2)
    other.execute("lock table inboxd.events in access exclusive mode")
    with psycopg.connect(database.dsn, application_name="service") as waiting:
        reports: list[Report] = []

        async def look() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(
                    anyio.to_thread.run_sync,
                    lambda: waiting.execute("select count(*) from inboxd.events"),
                )

                async def is_seen() -> bool:
                    report = await anyio.to_thread.run_sync(Report, cli)
                    return any("service" in each["found"] for each in report.of("locks"))

                await eventually(is_seen)
                reports.append(await anyio.to_thread.run_sync(Report, cli))
                other.rollback()

        anyio.run(look)
    (report,) = reports
    report.one(
        "locks", "notice", "service", "inboxd.events", f"blocked by pid {other.info.backend_pid}"
    )
    report.one("topics", "warning", "not checked", "longer than 0.2s")
    assert report.of("backlog: commands"), "other checks run"
    assert report.of("slots")


# ------------------------------------------------------------------------------------- server


def test_bad_settings_of_the_server_are_found(
    run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prepared transactions, unsafe settings, few connections, and a forgotten slot."""
    with temporary_server(
        max_prepared_transactions="2",
        autovacuum="off",
        synchronous_commit="off",
        max_connections="12",
        track_activities="off",
    ) as server:
        database = create_migrated(server)
        monkeypatch.setenv("INBOXD_DATABASE__DSN", database.dsn)
        monkeypatch.setattr(thresholds, "SNAPSHOT_SECONDS", AT_ONCE)
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute("select pg_create_physical_replication_slot('old', true)")
            connection.execute(
                "begin; insert into inboxd.audit (actor, action, target, count)"
                " values ('a', 'b', 'c', 1)"
            )
            connection.execute("prepare transaction 'left'")
            many = [psycopg.connect(database.dsn) for _ in range(7)]
            report = Report(run_cli)
            for each in many:
                each.close()
            connection.execute("rollback prepared 'left'")
    report.one("oldest snapshot", "notice", "'left'", "ROLLBACK PREPARED 'left'")
    settings = {each["found"].split()[0]: each["verdict"] for each in report.of("settings")}
    assert settings["autovacuum"] == "critical"
    assert settings["synchronous_commit"] == "warning"
    assert settings["track_activities"] == "notice"
    report.one("slots", "notice", "'old'", "pg_drop_replication_slot('old')")
    assert report.of("connections")[0]["verdict"] in {"warning", "critical"}


_ALL_OF_HISTORY = """
begin;
select from inboxd.events_history where id = 0;
select from inboxd.commands_history where id = 0
"""
_LOCKED = """
select count(*) from pg_locks l join pg_class c on c.oid = l.relation
 where l.pid = pg_backend_pid() and c.relname ~ '_history_[0-9]{8}'
"""


def test_locks_of_a_read_of_all_history_are_reported(
    cli: Cli, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(_ALL_OF_HISTORY)
        (locks,) = connection.execute(_LOCKED).fetchone() or (0,)
    assert locks > 0
    Report(cli).one("history locks", "ok", f"takes {locks:,} of the")
    monkeypatch.setattr(thresholds, "HISTORY_LOCKS", AT_ONCE)
    remedies = ("max_locks_per_transaction = ", "restart the server")
    Report(cli).one("history locks", "notice", *remedies)


@pytest.fixture
def modest(sql: Sql, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make a role with the daemon's rights and no others; the doctor runs as this role."""
    name = f"{database.name}_daemon"
    sql(f"create role {name} login in role inboxd_worker")
    parts = urlsplit(database.dsn)
    netloc = f"{name}@{parts.netloc.rpartition('@')[2]}"
    monkeypatch.setenv("INBOXD_DATABASE__DSN", urlunsplit(parts._replace(netloc=netloc)))
    yield name
    sql(f"drop owned by {name}")
    sql(f"drop role {name}")


@pytest.mark.direct("the pooler knows one role")
def test_doctor_without_privileges_reports_skipped_checks(
    cli: Cli, modest: str, sql: Sql, other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "SNAPSHOT_TRANSACTIONS", AT_ONCE)
    sql("revoke select on inboxd.stats_written from inboxd_worker")
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    other.execute("select 1")
    report = Report(cli)
    sql("grant select on inboxd.stats_written to inboxd_worker")
    report.one("privileges", "notice", f"GRANT pg_read_all_stats TO {modest};")
    report.one("oldest snapshot", "notice", f"pid {other.info.backend_pid}", "state unknown")
    report.one("dead letters", "notice", "not checked", "denied for table stats_written")
    assert len({each["group"] for each in report.findings}) == len(GROUPS)


@pytest.mark.direct("the pooler knows one role")
def test_role_without_rights_gets_an_error(cli: Cli, modest: str, sql: Sql) -> None:
    sql(f"revoke inboxd_worker from {modest}")
    result = cli("doctor")
    assert result.code == Exit.UNAVAILABLE
    assert result.err.startswith("inboxd: permission denied for schema inboxd")


def test_exit_codes(cli: Cli, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the worst verdict is a warning, --fail-on decides the exit code."""
    monkeypatch.setattr(
        "inboxd.operations.doctor.GROUPS", {"schema": GROUPS["schema"]}, raising=True
    )
    assert (Report(cli).code, Report(cli).verdict) == (0, "ok")
    sql("alter table inboxd.audit alter count drop not null")
    assert (Report(cli).code, Report(cli).verdict) == (1, "warning")
    assert Report(cli, "--fail-on", "critical").code == 0
