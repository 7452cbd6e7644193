"""Commands leased ahead of their start: those that do not start soon are released to others."""

import pytest

from tests.support import Config, Database, StartWorker, eventually
from tests.support.locks import lock_awaited
from tests.support.rows import create_ledger, send

pytestmark = pytest.mark.anyio


async def all_settled(database: Database) -> None:
    async def are() -> bool:
        return bool(await database.fetchval("select count(*) = 0 from inboxd.commands"))

    await eventually(are)


async def test_leased_commands_that_do_not_start_are_released(
    database: Database, start_worker: StartWorker
) -> None:
    """Two thousand quick commands, then eight slow ones: each worker gets some of these.

    Both workers sleep until they are notified: their poll is an hour away.
    """
    await create_ledger(database)
    config: Config = {
        "worker": {"poll_interval": "1h"},
        "commands": {"concurrency": 1},
        "database": {"lock_timeout": "10m", "statement_timeout": "10m"},
    }
    for _ in range(2):
        await start_worker(config)
    async with database.connect() as other, other.transaction():
        await other.execute("lock table ledger in share mode")  # each of the eight waits for it
        async with database.connect() as connection, connection.transaction():
            await send(connection, 2000, "test.span", wait=0)
            slow = await send(connection, 8)

        async def both_have_one() -> bool:
            rows = await database.fetch(
                "select worker_id from inboxd.commands where status = 'running'"
            )
            return len(rows) == len({row["worker_id"] for row in rows}) == 2

        await lock_awaited(database, 2, query="insert into ledger%")
        await eventually(both_have_one)
    await all_settled(database)
    rows = await database.fetch(
        "select attempts, crashes from inboxd.commands_history where id = any ($1)", slow
    )
    assert [tuple(row) for row in rows] == [(1, 0)] * 8


async def test_slow_commands_are_never_leased_ahead(
    database: Database, start_worker: StartWorker
) -> None:
    """The first commands of a page start at once, but that does not mean that they end soon."""
    worker = await start_worker({"commands": {"concurrency": 2}})
    async with database.connect() as connection, connection.transaction():
        await send(connection, 8, "test.wait", wait=1.2)

    await all_settled(database)
    claims = await database.fetch("select fence from inboxd.commands_history")
    assert [row["fence"] for row in claims] == [1] * 8
    assert "too long for their start" not in worker.output()
