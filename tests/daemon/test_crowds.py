"""A million rows that may not run cost the others nothing measurable."""

import time
from collections.abc import Awaitable, Callable

import pytest

from tests.daemon.test_controls import all_settled, pause
from tests.support import Database, StartWorker, eventually
from tests.support.rows import send

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(900)]

CROWD = (
    "insert into inboxd.commands (queue, type, payload, ordering_key) select 'crowd',"
    " 'test.wait', '{\"wait\": 3600}', case when $2 then 'k' || n % 1000 end"
    " from generate_series(1, $1::int) n"
)


async def cost_of(database: Database, crowd: Callable[[], Awaitable[object]]) -> float:
    """How much longer the same drain takes beside a crowd; the fastest of three turns each."""

    async def drain() -> float:
        began = time.monotonic()
        await all_settled(database, "commands", await send(database, 20_000, "test.noop"))
        return time.monotonic() - began

    await drain()
    alone = min([await drain() for _ in range(3)])
    await crowd()
    await database.execute("analyze inboxd.commands")
    return min([await drain() for _ in range(3)]) / alone


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "keyed"])
async def test_a_queue_at_its_total_limit(
    database: Database, start_worker: StartWorker, keyed: bool
) -> None:
    await start_worker({"queues": {"crowd": {"total_concurrency": 2}}})

    async def crowd() -> None:
        await database.execute(CROWD, 1_000_000, keyed)

        async def is_full() -> bool:
            count = "select count(*) from inboxd.commands where status = 'running'"
            return bool(await database.fetchval(count) == 2)

        await eventually(is_full)

    assert await cost_of(database, crowd) < 1.35
    left = await database.fetch("select status, count(*) from inboxd.commands group by status")
    waits = "waiting" if keyed else "pending"
    assert dict(map(tuple, left)) == {"running": 2, waits: 999_998}


async def test_a_paused_type_with_keys(database: Database, start_worker: StartWorker) -> None:
    await start_worker()

    async def crowd() -> None:
        await pause(database, "type", "test.wait")
        await database.execute(CROWD, 1_000_000, True)

    assert await cost_of(database, crowd) < 1.35
    left = await database.fetch(
        "select status, count(*), max(fence) from inboxd.commands group by 1"
    )
    assert [tuple(row) for row in left] == [("waiting", 1_000_000, 0)]
