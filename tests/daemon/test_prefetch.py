"""Leasing ahead of the start: what does not start soon after all is given back to other workers."""

import pytest

from tests.support import Config, Database, StartWorker, eventually
from tests.support.rows import send

pytestmark = pytest.mark.anyio


async def test_what_was_leased_ahead_is_given_back(
    database: Database, start_worker: StartWorker
) -> None:
    """Two thousand that end at once, then eight that do not: nobody keeps those to itself.

    Both workers sleep until they are notified: their poll is far away.
    """
    config: Config = {"worker": {"poll_interval": "1h"}, "commands": {"concurrency": 1}}
    workers = [await start_worker(config), await start_worker(config)]
    async with database.connect() as connection, connection.transaction():
        await send(connection, 2000, "test.span", wait=0)
        slow = await send(connection, 8, "test.span", wait=1.2)

    async def are_settled() -> bool:
        return bool(await database.fetchval("select count(*) = 0 from inboxd.commands"))

    await eventually(are_settled, within=60)
    rows = await database.fetch(
        "select worker_id, attempts, crashes from inboxd.commands_history where id = any ($1)", slow
    )
    assert {(row["attempts"], row["crashes"]) for row in rows} == {(1, 0)}
    assert len({row["worker_id"] for row in rows}) == 2
    assert any("leased ahead of their start are given back" in each.output() for each in workers)


async def test_slow_commands_are_never_leased_ahead(
    database: Database, start_worker: StartWorker
) -> None:
    """The first of a page start at once, however long they take: that says nothing of their end."""
    worker = await start_worker({"commands": {"concurrency": 2}})
    async with database.connect() as connection, connection.transaction():
        await send(connection, 8, "test.wait", wait=1.2)

    async def are_settled() -> bool:
        return bool(await database.fetchval("select count(*) = 0 from inboxd.commands"))

    await eventually(are_settled)
    claims = await database.fetch("select fence from inboxd.commands_history")
    assert [row["fence"] for row in claims] == [1] * 8
    assert "leased ahead of their start" not in worker.output()
