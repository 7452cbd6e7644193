"""`inboxd doctor`: each test causes a real problem, and finds its figure and remedy."""

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, tzinfo
from typing import Any

import anyio
import anyio.to_thread
import pytest

from inboxd.operations.doctor import GROUPS, endpoints, fleet, targets, work
from tests.cli.conftest import Cli
from tests.cli.troubles import Report, Sql
from tests.support import Database, StartWorker, eventually


def test_new_inbox_lacks_only_a_worker(cli: Cli, database: Database) -> None:
    report = Report(cli)
    assert (report.code, report.verdict) == (1, "critical")
    report.one("workers", "critical", "no living worker")
    # The tests' server runs with unsafe settings.
    wrong = {each["subject"] for each in report.findings if each["verdict"] != "ok"}
    # Logins belong to the server, on which other tests may have theirs at this moment.
    if database.name not in str(report.of("producers")):
        wrong -= {"producers"}
    assert wrong <= {"workers", "settings"}
    assert list(dict.fromkeys(each["group"] for each in report.findings)) == list(GROUPS)
    text = cli("doctor")
    assert "  -> start `inboxd run`" in text.out
    assert "\x1b" not in text.out, "no colours in a pipe"


# --------------------------------------------------------------------------------------- work


def test_backlogs_and_their_causes_are_found(cli: Cli, sql: Sql) -> None:
    sql(
        "insert into inboxd.events (type, topic, run_at) values"
        " ('test.a', 'old', now() - interval '2 h'), ('test.a', 'new', now()),"
        " ('test.a', 'held', now() - interval '2 h')"
    )
    sql("insert into inboxd.events (type, status) values ('test.a', 'failed')")
    sql(
        "insert into inboxd.commands (type, queue, ordering_key, status, line_at, run_at) values"
        " ('test.b', 'mail', 'k', 'failed', now() - interval '1 h', now() - interval '1 h')"
    )
    sql("insert into inboxd.commands (type, queue, ordering_key) values ('test.b', 'mail', 'k')")
    sql(
        "update inboxd.commands set run_at = now() - interval '2 h'"
        " where ordering_key = 'k' and status = 'waiting'"
    )
    sql(
        "insert into inboxd.schedules (name, kind, type, cron, zone, missed, source, next_at,"
        " schema_version, priority, payload, undeclared_at)"
        " select 'daily', 'event', 'test.a', '0 0 * * *', 'UTC', 'skip', 'plugin', now(), 1, 0,"
        " '{}', now()"
    )
    sql(
        "insert into inboxd.stats_written (minute, kind, lane, type, outcome, after, count)"
        " values (now(), 'event', 'default', 'test.a', 'failed', '', 200)"
    )
    sql("insert into inboxd.topics (name, mode, source) values ('lines', 'sequential', 'plugin')")
    sql(
        "insert into inboxd.events (type, topic, ordering_key) values ('test.a', 'lines', 'k'),"
        " ('test.a', 'lines', 'k')"
    )
    sql(
        "with first as (select min(id) as id from inboxd.events where topic = 'lines')"
        " update inboxd.events e set status = 'failed', position = e.id - first.id + 1,"
        " head = e.id = first.id, updated_at = now() - interval '2 days'"
        " from first where e.id = first.id"
    )
    sql(
        "insert into inboxd.topics (name, mode, source, undeclared_at)"
        " values ('gone', 'single', 'plugin', now())"
    )
    assert cli("pause", "topic", "held", "--reason", "they move").code == 0
    report = Report(cli)
    report.one("backlog: topic old", "critical", "the oldest for 2h")
    report.one("backlog: topic new", "ok")
    report.one("backlog: topic held", "ok", "paused: test.a")
    report.one("dead letters: events", "warning", "200", "inboxd failures list")
    report.one("dead letters: commands", "notice", "1")
    report.one("blocked keys: queue mail", "warning", "dead letter", "inboxd queues show mail")
    assert "in line" in report.of("backlog: lines of topic lines")[0]["found"]
    report.one("blocked lines: topic lines", "critical", "1 behind a dead letter", "for 2d")
    report.one("kept", "ok")  # without any worker, no type is unhandled in particular
    sql(
        "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
        " declares) values (gen_random_uuid(), 'w', 'h', 1, '0', '{test.c}', '{}', '{}', 'x')"
    )
    sql(
        "insert into inboxd.events (type, topic, ordering_key, run_at)"
        " values ('test.a', 'lines', 'kept', now() - interval '5 min')"
    )
    sql("update inboxd.events set position = 1, head = true where ordering_key = 'kept'")
    kept = Report(cli)
    kept.one("backlog: topic old", "ok")
    kept.one("kept: topic old", "warning", "of type test.a", "for 2h", 'types."test.a"')
    kept.one("kept: topic lines", "notice", "1 ordering key held", "inboxd topics blocked")
    kept.one("blocked lines: topic lines", "notice", "behind an event without a handler")
    old = kept.of("backlog: topic old")[0]["found"]
    assert "the oldest" not in old, "unhandled events do not count as late"
    assert "without a handler: test.a" in old
    report.one("schedules", "warning", "daily")
    report.one("topics", "warning", "'gone'")
    report.one("paused", "notice", "topic held", "they move", "inboxd resume topic held")


def test_unique_keys_taken_for_years_are_found(cli: Cli, sql: Sql) -> None:
    sql(
        "insert into inboxd.commands (type, unique_key, run_at) values"
        " ('test.b', 'k', '9998-01-01'), ('test.b', 'l', now() + interval '2 years'),"
        " ('test.b', 'soon', now() + interval '360 days'), ('test.c', 'n', now())"
    )
    Report(cli).one(
        "unique keys", "notice", "'k' of type test.b is taken until 9998-01-01", "1 more key"
    )


def test_similar_declared_name_of_unhandled_topic_is_suggested(cli: Cli, sql: Sql) -> None:
    sql(
        "insert into inboxd.topics (name, mode, source) values ('balances', 'single', 'plugin'),"
        " ('other', 'single', 'plugin')"
    )
    sql(
        "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
        " declares) values (gen_random_uuid(), 'w', 'h', 1, '0', '{bank.moved}', '{}', '{}', 'x')"
    )
    sql("insert into inboxd.events (type, topic) values ('zzz', 'balancse'), ('zzz', 'elsewhere')")
    report = Report(cli)
    report.one("kept: topic balancse", "notice", "'balancse' mean 'balances', correct the name")
    assert "mean" not in report.of("kept: topic elsewhere")[0]["remedy"]


def test_similar_declared_name_of_unhandled_type_is_suggested(cli: Cli, sql: Sql) -> None:
    sql(
        "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
        " declares) values (gen_random_uuid(), 'w', 'h', 1, '0', '{bank.moved}', '{}', '{}', 'x')"
    )
    sql("insert into inboxd.declared_types (kind, type) values ('event', 'bank.moved')")
    sql("insert into inboxd.events (type) values ('bank.mvoed')")
    told = "'bank.mvoed' mean 'bank.moved', correct the name"
    Report(cli).one("kept: topic default", "notice", told)


def test_sizes_count_rows_not_yet_analyzed(cli: Cli, sql: Sql) -> None:
    """PostgreSQL has no estimate of a table before its first vacuum or analyze."""
    sql("insert into inboxd.commands (type, queue) select 'a.b', 'q' from generate_series(1, 3)")
    cli("commands", "cancel", "--all", "--yes")
    sql("select pg_stat_force_next_flush()")

    def look() -> str:
        return str(Report(cli).of("size: commands_history")[0]["found"])

    until = time.monotonic() + 30
    while not look().startswith("about 3 rows") and time.monotonic() < until:
        time.sleep(0.1)
    assert look().startswith("about 3 rows")
    for line in Report(cli).findings:
        assert ", 0 bytes" not in line["found"], line


def test_uncounted_ends_of_batches_are_found(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.batch_progress select 1, 0, 1, 0, 0, 0, now() - interval '2 min'")
    Report(cli).one("batches", "warning", "1 ended row not counted yet", "start a worker")


# ------------------------------------------------------------------------------------ workers


@pytest.fixture
def working(cli: Cli, start_worker: StartWorker) -> Callable[..., None]:
    """Run an async function while a worker runs."""

    def run(test: Callable[..., Awaitable[None]]) -> None:
        async def with_worker() -> None:
            await test(await start_worker())

        anyio.run(with_worker)

    return run


@pytest.mark.direct("its listening session cannot be told from others")
def test_worker_is_ok_then_silent_then_lost(
    cli: Cli, working: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_WORKER__LEASE", "2s")
    monkeypatch.setenv("INBOXD_WORKER__HEARTBEAT_INTERVAL", "500ms")

    async def look() -> Report:
        return await anyio.to_thread.run_sync(Report, cli)

    async def test(worker: Any) -> None:
        await anyio.to_thread.run_sync(cli, "send", "test.span", '{"wait": 60}')

        async def runs() -> bool:
            return bool((await look()).of("longest command"))

        await eventually(runs)
        report = await look()
        report.one("workers", "ok", "1 on 1 host")
        report.one("wake-ups", "ok", "1 session listening")
        worker.pause()

        async def is_silent() -> bool:
            return any(each["verdict"] == "critical" for each in (await look()).of("workers"))

        await eventually(is_silent)
        (await look()).one("workers", "critical", worker.process.pid, "silent")

        worker.kill()  # no other worker can declare it dead

        async def is_lost() -> bool:
            return any(each["verdict"] == "critical" for each in (await look()).of("stuck leases"))

        await eventually(is_lost)
        report = await look()
        report.one("stuck leases", "critical", "1 command held", "test.span", "start a worker")
        assert not report.of("longest command"), "its worker is dead"

    working(test)


def test_flag_left_by_dead_worker_is_found(cli: Cli, sql: Sql) -> None:
    sql("select setval('inboxd.events_flag', 0)")
    Report(cli).one("wake-ups", "warning", "events silent", "start one")


def test_silenced_producers_are_found(cli: Cli, sql: Sql, database: Database) -> None:
    sql(f"alter database {database.name} set inboxd.notify = 'off'")
    Report(cli).one("wake-ups", "notice", database.name)


class Late(datetime):
    """A clock that is five minutes late."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "Late":
        return super().now(tz) - timedelta(minutes=5)


def test_wrong_clock_is_found(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "datetime", Late)
    began = time.monotonic()
    found = Report(cli).one("clock", "warning", "NTP")
    # The doctor reads one clock after the other.
    assert found["figure"] == pytest.approx(300, abs=1 + time.monotonic() - began)


def test_ages_are_by_the_clock_of_the_database(
    cli: Cli, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (work, targets, endpoints):
        monkeypatch.setattr(module, "datetime", Late, raising=False)
    sql(
        "insert into inboxd.controls (kind, name, actor, paused_at)"
        " values ('topic', 'held', 'me', now() - interval '2 min')"
    )
    sql(
        "insert into inboxd.breakers (name, mode, actor, changed_at)"
        " values ('bank', 'open', 'me', now() - interval '2 min')"
    )
    sql(
        "insert into inboxd.endpoints (name, url, types, secrets, failing_since, last_failure)"
        """ values ('acme', 'https://acme.example', '{*}', '[{"secret": "s"}]',"""
        " now() - interval '2 min', '503')"
    )
    report = Report(cli)
    for subject in ("paused", "breakers", "endpoints"):
        (found,) = report.of(subject)
        assert found["figure"] >= 120, found
