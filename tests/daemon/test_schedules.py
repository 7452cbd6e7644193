"""Schedules in the database and in workers: a run is sent once, by its policy, despite deaths."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest

from inboxd.api.schedules import Schedule
from inboxd.cli.exits import Exit
from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.schedules import send_schedules
from inboxd.operations.schedules import add_schedule
from inboxd.store import schedules
from inboxd.store.pools import lend, transaction
from inboxd.telemetry.metrics import Metrics
from tests.support import Config, Database, StartWorker, eventually
from tests.support.rows import daemon_pool, daemon_session

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("within_an_hour")]

# The connection is lost before the commit.
DRIVER_ERRORS = (asyncpg.InterfaceError, asyncpg.PostgresError, OSError)

HOURLY: dict[str, Any] = {
    "name": "hourly",
    "source": "a test",
    "cron": "0 * * * *",
    "zone": "UTC",
    "missed": "once",
    "kind": "command",
    "type": "test.noop",
    "schema_version": 1,
    "lane": None,
    "priority": 2,
    "tenant": "acme",
    "payload": '{"n": 1}',
    "time_field": None,
}


async def declare(database: Database, **changes: Any) -> None:
    async with daemon_session(database) as session:
        await schedules.declare(session, [Schedule(**{**HOURLY, **changes})])


async def overdue(database: Database, since: str) -> datetime:
    """Move the next time back by this interval, to the hour; return it."""
    return await database.fetchval(  # type: ignore[no-any-return]
        "update inboxd.schedules set next_at = date_trunc('hour', now() - $1::text::interval)"
        " returning next_at",
        since,
    )


async def send_once(database: Database) -> None:
    async with daemon_pool(database) as pool:
        await send_schedules(MaintenanceContext(pool, Metrics("0"), uuid4()), ["hourly"])


async def test_command_of_a_schedule_expires_after_its_run(database: Database) -> None:
    """Also that of a missed run, which is expired when it is sent."""
    await declare(database, missed="all", expires_after=timedelta(minutes=61))
    first = await overdue(database, "1h")
    await send_once(database)
    found = await database.fetch("select expires_at from inboxd.commands order by id")
    after = timedelta(minutes=61)
    assert [row[0] for row in found] == [first + after, first + timedelta(hours=1) + after]


async def test_a_command_of_a_schedule_names_its_origin(database: Database) -> None:
    await declare(database, time_field="at")
    assert await database.fetchval("select next_at > now() from inboxd.schedules")
    await send_once(database)
    assert await database.fetchval("select count(*) from inboxd.commands") == 0

    await overdue(database, "0s")
    await send_once(database)
    await send_once(database)
    (row,) = await database.fetch("select * from inboxd.commands")
    (schedule,) = await database.fetch("select *, now() from inboxd.schedules")
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    assert (schedule["last_at"], schedule["next_at"]) == (hour, hour + timedelta(hours=1))
    assert (row["origin_kind"], row["origin_id"]) == ("schedule", schedule["id"])
    assert row["correlation_id"] == f"hourly@{hour:%Y-%m-%dT%H:%M:%SZ}"
    assert (row["type"], row["queue"], row["priority"]) == ("test.noop", "default", 2)
    assert (row["tenant"], row["causation_id"]) == ("acme", None)
    assert json.loads(row["payload"]) == {"n": 1, "at": hour.isoformat()}


async def test_an_event_of_a_schedule_occurred_at_its_time(database: Database) -> None:
    await declare(database, kind="event", lane="clocks", missed="all")
    since = await overdue(database, "2 hours")
    await send_once(database)
    rows = await database.fetch("select * from inboxd.events order by id")
    assert [row["occurred_at"] for row in rows] == [since + timedelta(hours=n) for n in range(3)]
    assert {(row["topic"], row["source"], row["tenant"]) for row in rows} == {
        ("clocks", "schedule hourly", "acme")
    }
    assert [row["correlation_id"] for row in rows] == [
        f"hourly@{row['occurred_at']:%Y-%m-%dT%H:%M:%SZ}" for row in rows
    ]


@pytest.mark.parametrize("kind", ["event", "command"])
async def test_the_longest_schedule_name_fits_into_its_rows(database: Database, kind: str) -> None:
    """`source` and `correlation_id` have more than the name."""
    name = "é" * 127
    await declare(database, kind=kind, name=name)
    await overdue(database, "0s")
    async with daemon_pool(database) as pool:
        await send_schedules(MaintenanceContext(pool, Metrics("0"), uuid4()), [name])
    (story,) = await database.fetch(f"select correlation_id as id from inboxd.{kind}s")
    assert story["id"].startswith("é" * 117 + "@")
    assert len(story["id"].encode()) == 255


async def test_an_event_without_a_topic_goes_to_the_subscribed_topics(
    database: Database,
) -> None:
    """A plugin that has handlers only in topics gets it, as from any other producer."""
    await declare(database, kind="event", type="test.day_began")
    await overdue(database, "0s")
    await send_once(database)
    await database.execute(
        "insert into inboxd.subscriptions (type, topic) values ('test.day_began', 'a'),"
        " ('test.day_began', 'b')"
    )
    await overdue(database, "0s")
    await send_once(database)
    rows = await database.fetch("select topic, event_id from inboxd.events order by topic")
    assert [row["topic"] for row in rows] == ["a", "b", "default"]
    assert rows[0]["event_id"] == rows[1]["event_id"]


@pytest.mark.parametrize(("missed", "sent"), [("once", 1), ("all", 4)])
async def test_missed_runs_follow_the_policy(database: Database, missed: str, sent: int) -> None:
    await declare(database, missed=missed)
    await overdue(database, "3 hours")
    await send_once(database)
    assert await database.fetchval("select count(*) from inboxd.commands") == sent
    assert await database.fetchval("select next_at > now() from inboxd.schedules")


async def test_skipped_runs_are_not_sent(database: Database) -> None:
    """A cron whose last time was at least an hour ago, whenever this test runs."""
    long_ago = (datetime.now(UTC) - timedelta(hours=2)).hour
    await declare(database, missed="skip", cron=f"0 {long_ago} * * *")
    await overdue(database, "49 hours")
    await send_once(database)
    assert await database.fetchval("select count(*) from inboxd.commands") == 0
    row = (await database.fetch("select last_at, next_at > now() from inboxd.schedules"))[0]
    assert tuple(row) == (None, True)


@pytest.mark.safety
async def test_simultaneous_senders_send_once(database: Database) -> None:
    """While one locks the row, the other skips it; afterwards there is nothing left to send."""
    await declare(database)
    await overdue(database, "1 hour")
    async with daemon_pool(database) as pool:
        async with lend(pool) as session, transaction(pool, session):
            assert await session.fetchrow("claim_schedule", ["hourly"], []) is not None
            assert await schedules.send_due(pool, ["hourly"], []) is None
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(schedules.send_due, pool, ["hourly"], [])
    assert await database.fetchval("select count(*) from inboxd.commands") == 1


async def test_a_death_between_insert_and_commit_sends_nothing(database: Database) -> None:
    await declare(database)
    await overdue(database, "1 hour")
    async with daemon_pool(database) as pool:

        async def die() -> None:
            async with lend(pool) as session, transaction(pool, session):
                row = await session.fetchrow("claim_schedule", ["hourly"], [])
                assert row is not None
                await schedules._send(session, row)
                assert (
                    await session.connection.fetchval("select count(*) from inboxd.commands") == 1
                )
                session.connection.terminate()

        with pytest.raises(DRIVER_ERRORS):
            await die()
        assert await database.fetchval("select count(*) from inboxd.commands") == 0
        assert (await schedules.send_due(pool, ["hourly"], [])) is not None
    assert await database.fetchval("select count(*) from inboxd.commands") == 1


async def test_a_schedule_that_cannot_be_sent_delays_no_other(database: Database) -> None:
    await declare(database)
    await declare(database, name="odd")
    await overdue(database, "1 hour")
    await database.execute("update inboxd.schedules set cron = 'odd' where name = 'odd'")
    async with daemon_pool(database) as pool:
        metrics = Metrics("0")
        context = MaintenanceContext(pool, metrics, uuid4())
        await send_schedules(context, ["hourly", "odd"])
    told = metrics.registry.get_sample_value
    for name, outcome in (("hourly", "sent"), ("odd", "failed")):
        labels = {"schedule": name, "outcome": outcome}
        assert told("inboxd_schedule_runs_total", labels) == 1
    assert await database.fetchval("select count(*) from inboxd.commands") == 1
    assert await database.fetchval(
        "select next_at < now() from inboxd.schedules where name = 'odd'"
    )


async def test_a_paused_schedule_waits_and_then_follows_its_policy(database: Database) -> None:
    await declare(database)
    await overdue(database, "5 hours")
    await database.execute(
        "insert into inboxd.controls (kind, name, actor) values ('schedule', 'hourly', 'ada')"
    )
    await send_once(database)
    assert await database.fetchval("select count(*) from inboxd.commands") == 0
    await database.execute("delete from inboxd.controls")
    await send_once(database)
    assert await database.fetchval("select count(*) from inboxd.commands") == 1


async def test_a_new_declaration_keeps_the_next_time_unless_the_cron_changes(
    database: Database,
) -> None:
    await declare(database)
    since = await overdue(database, "3 hours")
    await declare(database, payload='{"n": 2}', source="another")
    row = (await database.fetch("select next_at, payload, source from inboxd.schedules"))[0]
    assert (row["next_at"], json.loads(row["payload"]), row["source"]) == (
        since,
        {"n": 2},
        "another",
    )
    await declare(database, zone="Europe/Berlin")
    assert await database.fetchval("select next_at > now() from inboxd.schedules")


async def test_an_undeclared_schedule_is_marked_and_forgotten(database: Database) -> None:
    await declare(database)
    async with daemon_session(database) as session:
        assert await schedules.mark_undeclared(session) == ["hourly"]
        assert await schedules.mark_undeclared(session) == []
        assert await schedules.forget_undeclared(session) == []
        await declare(database)
        assert await database.fetchval("select undeclared_at is null from inboxd.schedules")
        assert await schedules.mark_undeclared(session) == ["hourly"]
        await database.execute(
            "insert into inboxd.controls (kind, name, actor) values ('schedule', 'hourly', 'ada');"
            "update inboxd.schedules set undeclared_at = now() - interval '8 days'"
        )
        assert await schedules.forget_undeclared(session) == ["hourly"]
    assert await database.fetchval("select count(*) from inboxd.controls") == 0


async def add(database: Database, **changes: Any) -> None:
    """Add a schedule as an operator does."""
    async with daemon_session(database) as session:
        schedule = Schedule(**{**HOURLY, **changes})
        await add_schedule(session, schedule, actor="ada")


async def test_an_added_schedule_is_sent_by_any_worker(
    database: Database, start_worker: StartWorker
) -> None:
    """Workers do not change an added schedule; an invalid schedule does not delay it."""
    await add(database)
    await add(database, name="odd")
    await overdue(database, "1 hour")
    await database.execute("update inboxd.schedules set cron = 'odd' where name = 'odd'")
    worker = await start_worker()

    async def ran() -> bool:
        query = "select count(*) from inboxd.commands_history where origin_kind = 'schedule'"
        return bool(await database.fetchval(query))

    await eventually(ran)
    await worker.logged("schedule cannot be sent")
    async with daemon_session(database) as session:
        assert await schedules.mark_undeclared(session) == []
        # An older worker marks and forgets it so.
        await database.execute("update inboxd.schedules set undeclared_at = clock_timestamp()")
        left = "select count(*) from inboxd.schedules where undeclared_at is null"
        assert await database.fetchval(left) == 2
        assert await schedules.forget_undeclared(session) == []


async def test_a_declaration_replaces_an_added_schedule(database: Database) -> None:
    await add(database, source="ada")
    since = await overdue(database, "3 hours")
    await declare(database, payload='{"n": 2}')
    (row,) = await database.fetch("select added_at, source, next_at from inboxd.schedules")
    assert tuple(row) == (None, "a test", since)


async def test_a_declaration_of_an_older_worker_replaces_an_added_schedule(
    database: Database,
) -> None:
    """Its statement does not know the column `added_at`."""
    await add(database, source="ada")
    await database.execute("update inboxd.schedules set source = 'plugin p', undeclared_at = null")
    assert await database.fetchval("select added_at from inboxd.schedules") is None


@pytest.mark.safety
async def test_two_workers_send_each_run_once(
    database: Database, start_worker: StartWorker
) -> None:
    """A schedule is due four times, while two workers run and one of them is killed."""
    section = {"cron": "0 * * * *", "command": "test.noop", "payload": {"n": 3}}
    config: Config = {"schedules": {"tick": section}, "maintenance": {"interval": "500ms"}}
    workers = [await start_worker(config), await start_worker(config)]

    async def all_sent() -> bool:
        return bool(
            await database.fetchval("select bool_and(next_at > now()) from inboxd.schedules")
        )

    for turn in range(4):
        if turn == 2:
            workers[0].kill()
        await overdue(database, "1 hour")
        await eventually(all_sent)

    async def ran() -> bool:
        done = "select count(*) from inboxd.commands_history where origin_kind = 'schedule'"
        return bool(await database.fetchval(done) == 4)

    await eventually(ran)
    assert await database.fetchval("select count(*) from inboxd.commands") == 0
    assert await database.fetchval("select undeclared_at is null from inboxd.schedules")


async def test_a_wrong_schedule_is_refused_at_start(
    database: Database, start_worker: StartWorker
) -> None:
    worker = await start_worker(
        {"schedules": {"tick": {"cron": "61 * * * *", "command": "test.noop"}}}, ready=False
    )
    assert await worker.wait() == Exit.CONFIG
    assert "tick" in worker.output()
    assert "Bad minute" in worker.output()
