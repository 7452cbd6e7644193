"""Sequential topics with whole workers: promise 5."""

import pytest

from tests.support import Config, Database, StartWorker, eventually
from tests.support.order import TRAIL, in_order, settled, turns

pytestmark = pytest.mark.anyio

QUICK: Config = {"worker": {"lease": "2s", "heartbeat_interval": "200ms", "crash_limit": 50}}


@pytest.fixture
async def lines(database: Database) -> Database:
    """A database with the trail that the handlers leave."""
    await database.execute(TRAIL)
    return database


async def declared(database: Database) -> None:
    """Wait until a worker has declared the topics."""
    await eventually(
        lambda: database.fetchval("select count(*) = 1 from inboxd.topics where name = 'ordered'")
    )


async def test_events_of_a_key_are_handled_in_order(
    lines: Database, start_worker: StartWorker
) -> None:
    await start_worker()
    ids = await turns(lines, [f"k{n % 10}" for n in range(500)])
    await settled(lines, len(ids))
    found = await in_order(lines)
    assert sum(map(len, found.values())) == len(ids)
    assert await lines.fetchval("select count(*) from inboxd.events") == 0
