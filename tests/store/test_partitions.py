"""Partitions: made ahead, and what happens without one for today."""

from datetime import UTC, datetime, timedelta

import pytest

from inboxd.store import partitions
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.rows import SQL, create_ledger, daemon_session, emit, send

pytestmark = pytest.mark.anyio

PARENTS = ["bodies", "commands_history", "events_history"]


def _today() -> str:
    return f"{datetime.now(UTC):_%Y%m%d}"


async def _drop(database: Database, *days: int, parents: list[str] = PARENTS) -> None:
    for day in days:
        name = f"{datetime.now(UTC) + timedelta(days=day):_%Y%m%d}"
        for parent in parents:
            await database.execute(f"drop table inboxd.{parent}{name}")


async def test_a_migration_makes_them_days_ahead(database: Database) -> None:
    async with daemon_session(database) as session:
        assert await partitions.days_ahead(session, SQL) == 14
        kinds = await session.fetch(
            "select relname from pg_class where relkind = 'p'"
            " and relnamespace = 'inboxd'::regnamespace order by 1"
        )
        assert [row[0] for row in kinds] == PARENTS
        defaults = await session.fetchval(
            "select count(*) from pg_partitioned_table where partdefid <> 0"
        )
    assert defaults == 0, "a default partition would forbid to detach others concurrently"


async def test_missing_ones_are_made_once(database: Database) -> None:
    await _drop(database, 3)
    await _drop(database, 5, parents=["events_history"])
    async with daemon_session(database) as session:
        assert await partitions.days_ahead(session, SQL) == 2
        assert await partitions.make(session, SQL, 14) == 4
        assert await partitions.make(session, SQL, 14) == 0
        assert await partitions.days_ahead(session, SQL) == 14
        assert await partitions.make(session, SQL, 15) == 3


async def test_they_have_the_indexes_of_their_parents(database: Database) -> None:
    rows = await database.fetch(
        "select relname, (select count(*) from pg_index where indrelid = c.oid) as own,"
        " (select count(*) from pg_index join pg_inherits on inhparent = indrelid"
        "   where inhrelid = c.oid) as wanted"
        " from pg_class c where relkind = 'r' and relispartition"
        " and relnamespace = 'inboxd'::regnamespace"
    )
    assert len(rows) == 3 * 16
    assert {row["relname"] for row in rows if row["own"] != row["wanted"]} == set()


async def test_without_a_partition_a_large_payload_stays_in_its_row(database: Database) -> None:
    large = "x" * 5000
    await emit(database, 1, text=large)
    await _drop(database, 0, parents=["bodies"])
    await emit(database, 1, text=large)
    rows = await database.fetch(
        "select body_id is null as here, payload is not null as full from inboxd.events order by id"
    )
    assert [tuple(row) for row in rows] == [(False, False), (True, True)]


async def test_without_a_partition_nothing_is_claimed_until_there_is_one(
    database: Database, start_worker: StartWorker
) -> None:
    await create_ledger(database)
    worker = await start_worker({"upkeep": {"interval": "500ms"}})
    # The worker's role may not make tables; so it sees that the partition is missing.
    await database.execute(
        "alter function inboxd.make_partitions(integer) rename to make_partitions_no_more;"
        "create function inboxd.make_partitions(integer) returns integer language plpgsql"
        " as $$ begin raise insufficient_privilege; end $$"
    )
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


async def _is_held(worker: Worker) -> bool:
    return (await worker.get("/readyz"))[0] == 503


async def _all_settled(database: Database) -> bool:
    count: int = await database.fetchval(
        "select (select count(*) from inboxd.events_history)"
        " + (select count(*) from inboxd.commands_history)"
    )
    return count == 6
