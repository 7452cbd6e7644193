"""Partitions are made ahead; and the effects of a missing partition of today."""

from datetime import UTC, datetime, timedelta

import pytest

from inboxd import operations
from inboxd.errors import DatabaseError
from inboxd.store import partitions
from inboxd.store.migrations import migrate
from inboxd.store.operator_sessions import open_session
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.rows import create_ledger, daemon_session, effects, emit, send, settings_of
from tests.support.verdicts import safety

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("all_days")]

PARENTS = ["bodies", "commands_history", "events_history", "receipts"]


def _today() -> str:
    return f"{datetime.now(UTC):_%Y%m%d}"


async def _drop(database: Database, *days: int, parents: list[str] = PARENTS) -> None:
    for day in days:
        name = f"{datetime.now(UTC) + timedelta(days=day):_%Y%m%d}"
        for parent in parents:
            await database.execute(f"drop table inboxd.{parent}{name}")


async def _detach(database: Database, parent: str) -> str:
    """Detach today's partition, as a person does; returns its name."""
    part = parent + _today()
    await database.execute(f"alter table inboxd.{parent} detach partition inboxd.{part}")
    return part


async def test_migration_makes_partitions_days_ahead(database: Database) -> None:
    await database.execute("drop schema inboxd cascade")
    await migrate(settings_of(database))
    async with daemon_session(database) as session:
        assert await partitions.days_ahead(session) == 14
        kinds = await session.connection.fetch(
            "select relname from pg_class where relkind = 'p'"
            " and relnamespace = 'inboxd'::regnamespace order by 1"
        )
        assert [row[0] for row in kinds] == PARENTS
        defaults = await session.connection.fetchval(
            "select count(*) from pg_partitioned_table where partdefid <> 0"
        )
    assert defaults == 0, "a default partition forbids to detach others concurrently"


async def test_missing_partitions_are_made_once(database: Database) -> None:
    await _drop(database, 3)
    await _drop(database, 5, parents=["events_history"])
    async with daemon_session(database) as session:
        assert await partitions.days_ahead(session) == 2
        assert await partitions.make(session, 14) == 5
        assert await partitions.make(session, 14) == 0
        assert await partitions.days_ahead(session) == 14
        assert await partitions.make(session, 15) == 4


async def test_partition_detached_by_a_person_is_not_counted_and_not_touched(
    database: Database,
) -> None:
    part = await _detach(database, "events_history")
    await _drop(database, 3, parents=["bodies"])
    async with daemon_session(database) as session:
        assert await partitions.days_ahead(session) == -1
        assert await partitions.make(session, 14) == 1
        assert await partitions.days_ahead(session) == -1
        (apart,) = await partitions.apart(session)
        assert (apart.part, apart.ahead) == (part, 0)
        await database.execute(apart.attach)
        assert await partitions.days_ahead(session) == 14
        assert await partitions.apart(session) == []
        await _detach(database, "events_history")
        await database.execute(apart.rename)
        assert await partitions.make(session, 14) == 1
        assert await partitions.days_ahead(session) == 14
        assert await partitions.apart(session) == []


@pytest.mark.parametrize("part", ["bodies_20260231", "bodies_00000101", "bodies_2026010", "mine"])
async def test_table_without_a_day_in_its_name_is_not_a_partition(
    database: Database, part: str
) -> None:
    await database.execute(f"create table inboxd.{part} ()")
    async with daemon_session(database) as session:
        assert await partitions.apart(session) == []


async def test_partition_dropped_meanwhile_is_not_listed(
    database: Database,
) -> None:
    ranges = "select count(*), count(low), count(high) from inboxd.every_partition"
    there = await database.fetchval(ranges)
    async with database.connect() as looks, looks.transaction(isolation="repeatable_read"):
        await looks.execute("select from inboxd.audit")  # takes the snapshot
        await _drop(database, 3)
        [seen] = await looks.fetch(ranges)
    assert set(seen) == {there - len(PARENTS)}


async def test_partitions_have_the_indexes_of_their_parents(database: Database) -> None:
    rows = await database.fetch(
        "select relname, (select count(*) from pg_index where indrelid = c.oid) as own,"
        " (select count(*) from pg_index join pg_inherits on inhparent = indrelid"
        "   where inhrelid = c.oid) as wanted"
        " from pg_class c where relkind = 'r' and relispartition"
        " and relnamespace = 'inboxd'::regnamespace"
    )
    assert len(rows) == 4 * 16
    assert {row["relname"] for row in rows if row["own"] != row["wanted"]} == set()


@pytest.mark.parametrize("leave", ["drop", "detach"])
async def test_large_payload_without_a_partition_stays_in_its_row(
    database: Database, leave: str
) -> None:
    large = "x" * 5000
    await emit(database, 1, text=large)
    if leave == "drop":
        await _drop(database, 0, parents=["bodies"])
    else:
        await _detach(database, "bodies")
    await emit(database, 1, text=large)
    rows = await database.fetch(
        "select body_id is null as here, payload is not null as full from inboxd.events order by id"
    )
    assert [tuple(row) for row in rows] == [(False, False), (True, True)]


async def test_claims_stop_until_there_is_a_partition(
    database: Database, start_worker: StartWorker
) -> None:
    await create_ledger(database)
    worker = await start_worker({"maintenance": {"interval": "500ms"}})
    await _let_nobody_make_any(database)
    await _drop(database, 0)
    await eventually(lambda: _is_held(worker))
    await emit(database, 3)
    await send(database, 3)
    body = (await worker.get("/readyz"))[1]
    assert "no partition for today" in body
    assert (await worker.get("/healthz"))[0] == 200
    left = await database.fetchval(
        "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"
    )
    assert left == 6
    await database.execute("select inboxd.make_partitions_no_more(14)")
    await eventually(lambda: _all_settled(database))
    await worker.ready()
    tries = await database.fetchval(
        "select max(attempts) from (select attempts from inboxd.events_history"
        " union all select attempts from inboxd.commands_history) t"
    )
    assert tries == 1


async def test_detached_partition_of_today_stops_claims_and_is_named(
    database: Database, start_worker: StartWorker
) -> None:
    await create_ledger(database)
    worker = await start_worker({"maintenance": {"interval": "500ms"}})
    part = await _detach(database, "events_history")
    await eventually(lambda: _is_held(worker))
    assert f"{part} is there, detached: attach it again" in (await worker.get("/readyz"))[1]
    await emit(database, 3)
    await send(database, 3)
    async with daemon_session(database) as session:
        (apart,) = await partitions.apart(session)
    await database.execute(apart.attach)
    await eventually(lambda: _all_settled(database))
    await worker.ready()


async def test_runs_that_end_without_a_partition_are_settled_once_it_exists(
    database: Database, start_worker: StartWorker
) -> None:
    """This happens at midnight without a partition for the new day, while handlers run."""
    await create_ledger(database)
    worker = await start_worker({"maintenance": {"interval": "300ms"}})
    await _let_nobody_make_any(database)
    ids = await send(database, 2, wait=1.5)
    others = await send(database, 2, "test.wait", "slow", wait=1.5)
    events = await emit(database, 2, wait=0.7)

    async def under_way() -> bool:
        running = "select count(*) from inboxd.commands where status = 'running'"
        return bool(await database.fetchval(running) == 4)

    await eventually(under_way)
    await _drop(database, 0, parents=["commands_history", "events_history", "receipts"])
    await eventually(lambda: _is_held(worker))
    await worker.logged("no partition of relation")
    left = "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"
    assert await database.fetchval(left) == len([*ids, *others, *events])
    await database.execute("select inboxd.make_partitions_no_more(14)")
    await eventually(lambda: _all_settled(database))
    with safety():
        assert set((await effects(database, "command")).values()) == {1}
        assert set((await effects(database, "event")).values()) == {1}
    worst = "select max(attempts), max(crashes) from inboxd.commands_history"
    assert tuple((await database.fetch(worst))[0]) == (1, 0)


async def test_operators_action_without_a_partition_changes_nothing(
    database: Database,
) -> None:
    (waiting,) = await send(database, 1)
    (dead,) = await send(database, 1)
    await database.execute("update inboxd.commands set status = 'failed' where id = $1", dead)
    await _drop(database, 0, parents=["commands_history"])
    attempts: list[tuple[operations.Action, int]] = [("cancel", waiting), ("dismiss", dead)]
    for action, id_ in attempts:
        with pytest.raises(DatabaseError, match="inboxd history make"):
            async with open_session(settings_of(database)) as session:
                await operations.act(session, "commands", action, [id_], actor="ada")
    rows = await database.fetch("select status from inboxd.commands order by id")
    assert [row[0] for row in rows] == ["pending", "failed"]
    assert await database.fetchval("select count(*) from inboxd.audit") == 0


async def _let_nobody_make_any(database: Database) -> None:
    """Let make_partitions fail like a function whose owner lost the right to make tables."""
    await database.execute(
        "alter function inboxd.make_partitions(integer) rename to make_partitions_no_more;"
        "create function inboxd.make_partitions(integer) returns integer language plpgsql"
        " as $$ begin raise insufficient_privilege; end $$"
    )


async def _is_held(worker: Worker) -> bool:
    return (await worker.get("/readyz"))[0] == 503


async def _all_settled(database: Database) -> bool:
    count: int = await database.fetchval(
        "select (select count(*) from inboxd.events_history)"
        " + (select count(*) from inboxd.commands_history)"
    )
    return count == 6
