"""Retention: partitions that are dropped, partitions that stay, and sessions in the way."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import asyncpg
import pytest

from inboxd.store import bodies, partitions
from tests.store.retained import MONTH, files_in, let_all_go, let_go, retire, told
from tests.support import Database
from tests.support.history import day, make_day, parts, settle, store_body
from tests.support.rows import daemon_session
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


FOREVER = {"events": "forever", "commands": "forever"}


@asynccontextmanager
async def reading(database: Database, table: str) -> AsyncIterator[asyncpg.Connection]:
    """A transaction that has read a table and stays open."""
    async with database.connect() as connection, connection.transaction():
        await connection.execute(f"select from inboxd.{table} limit 1")
        yield connection


@pytest.fixture
async def humble(database: Database) -> AsyncIterator[Database]:
    """A login with the worker's role, which may not alter tables."""
    role = f"humble_{uuid.uuid4().hex[:8]}"
    await database.execute(f"create role {role} login; grant inboxd_worker to {role}")
    url = urlsplit(database.dsn)
    place = url.netloc.rpartition("@")[2]
    yield Database(database.name, url._replace(netloc=f"{role}@{place}").geturl())
    await database.execute(f"drop owned by {role}; drop role {role}")


# ---------------------------------------------------------------------- dropped partitions


async def test_each_table_has_its_own_retention_of_whole_days(
    database: Database,
) -> None:
    for days in (10, 30, 31, 90, 91):
        await make_day(database, days)
        await settle(database, days, 5)
        await settle(database, days, 5, parent="commands_history")
    metrics = await let_go(database)
    left = {f"events_history{day(10)}", f"events_history{day(30)}"}
    left |= {f"commands_history{day(days)}" for days in (10, 30, 31, 90)}
    # The events of a day's bodies may be settled until the end of the next day.
    left |= {f"bodies{day(days)}" for days in (10, 30, 31, 90, 91)}
    assert await parts(database) == left
    assert told(metrics, "inboxd_partitions_dropped_total", "events_history") == 3
    assert told(metrics, "inboxd_partitions_dropped_total", "commands_history") == 1
    gone = await database.fetchval(
        "select count(*) from inboxd.retired where dropped_at is not null and parent <> 'bodies'"
    )
    assert gone == 4
    assert told(await let_go(database), "inboxd_partitions_dropped_total", "events_history") == 0


async def test_tables_with_retention_forever_keep_all_partitions(database: Database) -> None:
    await make_day(database, 400)
    metrics = await let_go(database, FOREVER)
    assert len(await parts(database)) == 3
    assert told(metrics, "inboxd_retention_lag_seconds", "events_history") == 0
    oldest = told(metrics, "inboxd_oldest_partition_age_seconds", "events_history")
    assert oldest is not None
    assert timedelta(days=398) < timedelta(seconds=oldest) < timedelta(days=400)


async def test_bodies_stay_where_a_table_is_kept_for_ever(database: Database) -> None:
    await make_day(database, 400)
    await let_go(database, {"events": "30d", "commands": "forever"})
    assert await parts(database) == {f"bodies{day(400)}", f"commands_history{day(400)}"}


async def test_login_without_the_right_to_alter_drops_partitions(
    database: Database, humble: Database, tmp_path: Path
) -> None:
    await make_day(database, 100)
    await settle(database, 100, 5)
    async with daemon_session(humble) as session:
        found = await partitions.listed(session)
        assert not any(each.owned for each in found)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await session.connection.execute(f"drop table inboxd.events_history{day(100)}")
        for day_ in (f"events_history{day(0)}", f"events_history{day(100)}", "events", "x'; --"):
            with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
                await session.execute("leave_partition", day_)
            assert await session.fetchval("drop_partition", day_) is None
    await let_all_go(humble, MONTH | {"export": str(tmp_path)})
    assert await parts(database) == set()
    assert len(files_in(tmp_path)) == 2


async def test_partition_that_is_not_marked_as_retired_is_not_dropped(database: Database) -> None:
    """A person detached one partition to keep it; the detach of another was interrupted."""
    await make_day(database, 100)
    await make_day(database, 200, "events_history")
    await database.execute(
        f"alter table inboxd.events_history detach partition inboxd.events_history{day(100)}"
    )
    await interrupt_detaching(database, f"events_history{day(200)}")
    await let_all_go(database)
    kept = {f"events_history{day(days)}" for days in (100, 200)}
    assert await parts(database) == kept
    await let_go(database)
    assert await parts(database) == kept


async def test_partition_detached_by_a_person_after_a_failed_export_stays(
    database: Database, tmp_path: Path
) -> None:
    await make_day(database, 100, "events_history")
    part = f"events_history{day(100)}"
    await let_go(database, MONTH | {"export": str(tmp_path / "missing")})
    await database.execute(f"alter table inboxd.events_history detach partition inboxd.{part}")
    for history in (FOREVER, MONTH, MONTH | {"export": str(tmp_path)}):
        await let_go(database, history)
        assert await parts(database) == {part}


async def test_detached_partition_is_dropped_only_beyond_its_retention(database: Database) -> None:
    await make_day(database, 100, "events_history")
    async with daemon_session(database) as session:
        oldest = await retire(session, f"events_history{day(100)}")
        await partitions.detach(session, oldest)
    for history in (FOREVER, {"events": "200d"}):
        await let_go(database, history)
        assert await parts(database) == {f"events_history{day(100)}"}
    await let_go(database)
    assert await parts(database) == set()


# ---------------------------------------------------------------------- sessions in the way


@asynccontextmanager
async def meanwhile(work: Callable[[], Awaitable[object]]) -> AsyncIterator[anyio.Event]:
    """Run `work` beside the block; the event is set when it has ended."""
    ended = anyio.Event()

    async def do() -> None:
        await work()
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(do)
        yield ended


async def interrupt_detaching(database: Database, part: str) -> None:
    """Leave a concurrent detach half done, as a crash does."""
    parent = part.rpartition("_")[0]
    async with reading(database, part), database.connect() as other:
        await other.execute("set lock_timeout = '100ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await other.execute(
                f"alter table inboxd.{parent} detach partition inboxd.{part} concurrently"
            )
    pending = "select inhdetachpending from pg_inherits where inhrelid = $1::text::regclass"
    assert await database.fetchval(pending, f"inboxd.{part}")


async def test_interrupted_detach_is_completed(database: Database) -> None:
    await make_day(database, 100, "events_history")
    async with daemon_session(database) as session:
        await retire(session, f"events_history{day(100)}")
    await interrupt_detaching(database, f"events_history{day(100)}")
    await let_go(database)
    assert await parts(database) == set()


async def test_half_detached_partition_is_dropped_only_beyond_its_retention(
    database: Database,
) -> None:
    """An interrupted detach must end, since it blocks others; the partition is then kept."""
    part = f"events_history{day(100)}"
    await make_day(database, 100, "events_history")
    async with daemon_session(database) as session:
        await retire(session, part)
    await interrupt_detaching(database, part)
    for history in (FOREVER, {"events": "200d"}):
        await let_go(database, history)
        assert await parts(database) == {part}
    assert not await database.fetchval(
        "select relispartition from pg_class where relname = $1", part
    )
    await let_go(database)
    assert await parts(database) == set()


async def test_reader_with_an_old_snapshot_reads_on_during_the_end_of_a_detach(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a detach locks the table and waits for old snapshots, as the reader has."""
    monkeypatch.setattr(partitions, "_TRIES", 4)
    # Waiting sessions go on waiting: the server does not end one of them as a deadlock.
    await database.execute(f"alter database {database.name} set deadlock_timeout = '1min'")
    part = f"events_history{day(100)}"
    await make_day(database, 100, "events_history")
    await settle(database, 100, 10)
    async with daemon_session(database) as session:
        await retire(session, part)
    async with database.connect() as reader, reader.transaction(isolation="repeatable_read"):
        await reader.execute("select 1")
        await interrupt_detaching(database, part)
        async with meanwhile(partial(let_go, database, lock_timeout="10s")) as ended:
            while not ended.is_set():
                with anyio.fail_after(5):  # half of the time that the detach may wait
                    assert await reader.fetchval("select count(*) from inboxd.events_history") == 10
        assert part in await parts(database)
    await let_go(database)
    assert await parts(database) == set()


@pytest.mark.parametrize("owner", [True, False])
async def test_reader_delays_only_its_own_table_and_no_session(
    database: Database, humble: Database, owner: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "_TRIES", 3)
    way = database if owner else humble
    await make_day(database, 100)
    await settle(database, 100, 10)
    async with reading(database, "events_history") as reader:
        async with meanwhile(partial(let_go, way)) as ended:
            while not ended.is_set():
                with bounded():  # no session waits for the end of the reader's transaction
                    await settle(database, 0, 1)
                    await database.fetch("select count(*) from inboxd.events_history")
        assert f"commands_history{day(100)}" not in await parts(database)
        assert f"events_history{day(100)}" in await parts(database)
        await reader.fetch("select count(*) from inboxd.events_history")
    await let_all_go(way)
    assert await parts(database) == set()


async def test_concurrent_leaders_drop_each_partition_once(database: Database) -> None:
    for days in range(91, 96):
        await make_day(database, days)
        await settle(database, days, 5)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(let_go, database)
    for _ in range(2):
        await let_go(database)
    left = await parts(database)
    assert left <= {f"bodies{day(91)}", f"commands_history{day(90)}"}
    dropped = "select count(*) from inboxd.retired where parent = 'events_history'"
    assert await database.fetchval(f"{dropped} and dropped_at is not null") == 5


# ----------------------------------------------------------------------------------- bodies


async def test_needed_body_is_copied_forward(database: Database) -> None:
    """Needed by a dead letter, by an event in retry, by one settled late; two rows share one."""
    await make_day(database, 120)
    await make_day(database, 60, "commands_history", "events_history")
    places = {name: await store_body(database, 120, name) for name in ("dead", "late", "both")}
    large = "insert into inboxd.{} (type, body_id, body_at, status) values ($1, $2, $3, $4)"
    for type_, name, status in (
        ("test.dead", "dead", "failed"),
        ("test.both", "both", "pending"),
        ("test.both", "both", "failed"),
    ):
        await database.execute(large.format("events"), type_, *places[name], status)
    await settle(database, 60, 1, "test.late", "commands_history", places["late"])
    await let_all_go(database)
    assert f"bodies{day(120)}" not in await parts(database)
    for table, type_, text in (
        ("events", "test.dead", "dead"),
        ("events", "test.both", "both"),
        ("commands_history", "test.late", "late"),
    ):
        rows = await database.fetch(
            f"select b.payload ->> 'text' from inboxd.{table} r"
            " left join inboxd.bodies b on b.id = r.body_id and b.created_at = r.body_at"
            " where r.type = $1",
            type_,
        )
        assert {row[0] for row in rows} == {text}
    async with daemon_session(database) as session:
        # A session that claimed a row before its body was moved still finds it.
        id_, at = places["dead"]
        stale: Any = await session.connection.fetch(
            "select $1::bigint as body_id, $2::timestamptz as body_at", id_, at
        )
        assert await bodies.read(session, stale) == {id_: '{"text": "dead"}'}


async def test_body_of_a_locked_row_stays_at_its_place(database: Database) -> None:
    await make_day(database, 120, "bodies")
    place = await store_body(database, 120, "held")
    await database.execute(
        "insert into inboxd.events (type, body_id, body_at) values ('test.noop', $1, $2)", *place
    )
    async with database.connect() as holder, holder.transaction():
        await holder.execute("select from inboxd.events for update")
        await let_go(database)
        assert await parts(database) == {f"bodies{day(120)}"}
    await let_go(database)
    assert await parts(database) == set()


async def test_retired_body_that_is_needed_is_attached_again(database: Database) -> None:
    """After the detach, a long transaction committed a row that needs the body."""
    await make_day(database, 120, "bodies")
    place = await store_body(database, 120, "late")
    async with daemon_session(database) as session:
        oldest = (await partitions.listed(session))[0]
        await partitions.retire(session, oldest)
        await partitions.detach(session, oldest)
    await database.execute(
        "insert into inboxd.events (type, body_id, body_at) values ('test.noop', $1, $2)", *place
    )
    await let_go(database)
    assert await database.fetchval("select count(*) from inboxd.bodies") == 1
    await let_go(database)
    assert await parts(database) == set()
    assert await database.fetchval("select count(*) from inboxd.bodies") == 1, "copied forward"


async def test_history_that_is_kept_keeps_the_bodies_of_its_days(database: Database) -> None:
    for days in (91, 92):
        await make_day(database, days, "bodies")
    await make_day(database, 91, "commands_history")
    await let_go(database, {"events": "30d", "commands": "92d"})
    assert await parts(database) == {
        f"bodies{day(92)}",
        f"bodies{day(91)}",
        f"commands_history{day(91)}",
    }
    await let_all_go(database, {"events": "30d", "commands": "80d"})
    assert await parts(database) == set()


# ------------------------------------------------------------------------------ retention of types


async def test_type_may_have_a_shorter_retention(database: Database, humble: Database) -> None:
    for days in (3, 10):
        await make_day(database, days)
        for type_ in ("test.short", "test.long"):
            await settle(database, days, 300, type_)
    metrics = await let_go(humble, MONTH, {"test.short": {"retention": "7d"}})
    assert told(metrics, "inboxd_purged_rows_total", "events_history") == 300
    rows = await database.fetch(
        "select type, count(*) from inboxd.events_history group by 1 order by 1"
    )
    assert [tuple(row) for row in rows] == [("test.long", 600), ("test.short", 300)]
    again = await let_go(database, MONTH, {"test.short": {"retention": "7d"}})
    assert not told(again, "inboxd_purged_rows_total", "events_history")
    # A retention that is set later is applied too.
    await let_go(database, MONTH, {"test.long": {"retention": "2d"}})
    assert await database.fetchval("select count(*) from inboxd.events_history") == 300
