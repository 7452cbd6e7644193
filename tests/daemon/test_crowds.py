"""A million rows that may not run cost the others nothing measurable."""

import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.daemon.test_controls import pause
from tests.support import Config, Database, StartWorker, create, drop, eventually
from tests.support.databases import AnyServer
from tests.support.rows import send

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(900)]

CROWD = (
    "insert into inboxd.commands (queue, type, payload, ordering_key) select $1,"
    " 'test.wait', '{\"wait\": 3600}', case when $2 then 'k' || n % 1000 end"
    " from generate_series(1, 1000000) n"
)
# How much longer a drain may take beside a crowd; by the clock, a machine's noise included.
MOST = 1.35


@pytest.fixture
def elsewhere(server: AnyServer, template: Database) -> Iterator[Database]:
    """A database in which no crowd waits."""
    fresh = create(server, template.name)
    yield fresh
    drop(server, fresh)


async def drain(database: Database) -> float:
    """How long it takes, in seconds.

    Whether it has ended is asked at the price of one row: twenty thousand ids looked up in a table
    with a crowd cost more than in one without, and this question's cost is not the daemon's.
    """
    began = time.monotonic()
    ids = await send(database, 20_000, "test.noop")
    left = "select exists (select from inboxd.commands where id between $1 and $2)"

    async def settled() -> bool:
        return not await database.fetchval(left, ids[0], ids[-1])

    await eventually(settled, within=120)
    return time.monotonic() - began


@pytest.fixture
def cost_of(database: Database, elsewhere: Database, start_worker: StartWorker) -> "CostOf":
    """How much longer a drain takes beside a crowd than elsewhere; the fastest turns of each.

    They take turns, so that what else a machine does meets both; and there are more of them where
    it has met one of them more.
    """

    async def measure(crowd: Callable[[], Awaitable[object]], config: Config) -> float:
        await start_worker(config)
        await start_worker({**config, "database": {"dsn": elsewhere.dsn}})
        await drain(database)
        await crowd()
        await database.execute("analyze inboxd.commands")
        alone, beside = [await drain(elsewhere)], [await drain(database)]
        for turn in range(2, 13):
            alone.append(await drain(elsewhere))
            beside.append(await drain(database))
            if turn >= 3 and min(beside) < MOST * min(alone):
                break
        return min(beside) / min(alone)

    return measure


# Those that run, run until the worker is ended.
FULL: Config = {
    "queues": {"crowd": {"total_concurrency": 2}},
    "commands": {"timeout": "1h"},
}
CostOf = Callable[[Callable[[], Awaitable[object]], Config], Awaitable[float]]


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "keyed"])
async def test_a_queue_at_its_total_limit(database: Database, cost_of: CostOf, keyed: bool) -> None:
    async def crowd() -> None:
        await database.execute(CROWD, "crowd", keyed)

        async def is_full() -> bool:
            count = "select count(*) from inboxd.commands where status = 'running'"
            return bool(await database.fetchval(count) == 2)

        await eventually(is_full, within=120)

    assert await cost_of(crowd, FULL) < MOST
    left = await database.fetch("select status, count(*) from inboxd.commands group by status")
    waits = "waiting" if keyed else "pending"
    assert dict(map(tuple, left)) == {"running": 2, waits: 999_998}


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "keyed"])
async def test_a_paused_type(database: Database, cost_of: CostOf, keyed: bool) -> None:
    async def crowd() -> None:
        await pause(database, "type", "test.wait")
        await database.execute(CROWD, "default", keyed)  # where the others are too

    assert await cost_of(crowd, {}) < MOST
    left = await database.fetch(
        "select status, count(*), max(fence) from inboxd.commands group by 1"
    )
    waits = "waiting" if keyed else "pending"
    assert [tuple(row) for row in left] == [(waits, 1_000_000, 0)]
