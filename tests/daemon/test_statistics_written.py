"""Statistics at a worker's end: a killed worker loses its last seconds, a stopped one nothing."""

import pytest

from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.counted import counted
from tests.support.rows import emit, send
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

_CONFIG: Config = {"maintenance": {"interval": "500ms"}}


async def _succeeded(database: Database) -> int:
    """The successes over all types and lanes."""
    found = await counted(database, "outcome", "outcome = 'succeeded'")
    return found["succeeded",]


async def _settled(database: Database, rows: int) -> None:
    async def all_are() -> bool:
        count = "select count(*) from inboxd.{}_history"
        there = [await database.fetchval(count.format(table)) for table in ("events", "commands")]
        return bool(sum(there) == rows)

    await eventually(all_are)


async def test_a_killed_worker_loses_its_last_seconds_and_a_stopped_one_nothing(
    database: Database, start_worker: StartWorker
) -> None:
    victim: Worker = await start_worker(_CONFIG)
    await emit(database, 40, "test.noop")
    await send(database, 10, "test.noop")

    async def all_are_written() -> bool:
        return await _succeeded(database) == 50

    await eventually(all_are_written)
    await emit(database, 30, "test.noop")
    await _settled(database, 80)
    victim.kill()
    left = await _succeeded(database)
    with safety():
        assert 50 <= left <= 80

    # Its successor writes every five seconds, and here stops before the first five are over.
    follower = await start_worker()
    await emit(database, 20, "test.noop")
    await _settled(database, 100)
    assert await follower.stop() == 0
    lanes = await counted(database, "kind, lane, type")
    with safety():
        assert await _succeeded(database) == left + 20
        assert lanes["event", "default", "test.noop"] == left + 10
        assert lanes["command", "default", "test.noop"] == 10
