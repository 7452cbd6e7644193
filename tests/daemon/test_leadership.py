"""Leadership: one worker runs the tasks that need only one; another leads when it ends."""

from functools import partial

import anyio
import pytest

from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.leader import Leadership
from inboxd.store import leases, workers
from inboxd.telemetry.metrics import Metrics
from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.history import day, make_day, parts, settle
from tests.support.rows import SQL, daemon_pool, daemon_session, join

pytestmark = pytest.mark.anyio

QUICK: Config = {
    "worker": {"lease": "2s", "heartbeat_interval": "500ms"},
    "maintenance": {"interval": "300ms"},
}


async def test_one_of_many_simultaneous_candidates_leads(database: Database) -> None:
    async with daemon_pool(database, size=8) as pool:
        async with daemon_session(database) as session:
            ids = [await join(session, f"w{n}") for n in range(8)]
        leaders = [Leadership(MaintenanceContext(pool, Metrics("0"), id_)) for id_ in ids]
        led: list[Leadership] = []

        async def try_to(leader: Leadership) -> None:
            if await leader.leads():
                led.append(leader)

        for _ in range(5):
            async with anyio.create_task_group() as tasks:
                for leader in leaders:
                    tasks.start_soon(try_to, leader)
        assert len(led) == 5, "one leader in each round"
        assert len(set(map(id, led))) == 1, "the same leader in each round"
    assert await database.fetchval("select term from inboxd.leases where name = 'leader'") == 1


async def test_simultaneous_tasks_of_the_leader_all_lead(database: Database) -> None:
    async with daemon_pool(database, size=8) as pool:
        async with daemon_session(database) as session:
            me = await join(session, "one")
        leadership, answers = (
            Leadership(MaintenanceContext(pool, Metrics("0"), me)),
            list[bool](),
        )

        async def ask() -> None:
            answers.append(await leadership.leads())

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(ask)
    assert answers == [True] * 8


async def test_a_stale_read_of_the_lease_does_not_take_it(database: Database) -> None:
    async with daemon_session(database) as session:
        one, two = await join(session, "one"), await join(session, "two")
        lease = await session.fetchrow("read_lease", "leader", None)
        assert lease is not None
        assert await leases.hold(session, "leader", two)
        assert await session.fetchval("take_lease", "leader", lease["term"], one) is None
        assert not await leases.hold(session, "leader", one)


@pytest.mark.parametrize("state", ["draining", "stopped", "dead"])
async def test_a_worker_that_ends_loses_leadership(database: Database, state: str) -> None:
    async with daemon_session(database) as session:
        one, two = await join(session, "one"), await join(session, "two")
        assert await leases.hold(session, "leader", one)
        await session.connection.execute(
            "update inboxd.workers set state = $2 where id = $1", one, state
        )
        assert not await leases.hold(session, "leader", one), "it must not take the lease again"
        assert await leases.hold(session, "leader", two)
        await workers.leave(session, two)
        await session.connection.execute("delete from inboxd.workers where id = $1", two)
        three = await join(session, "three")
        assert await leases.hold(session, "leader", three), "the lease of a deleted worker is free"


async def test_newer_code_takes_over_leadership_at_once(database: Database) -> None:
    """Older code does not know all tasks: nothing would be rolled up."""
    async with daemon_session(database) as session:
        old, new = await join(session, "old"), await join(session, "new")
        await session.connection.execute("update inboxd.workers set code = NULL where id = $1", old)
        take = partial(leases.hold, session, from_older=True)
        assert await take("leader", old)
        assert not await leases.hold(session, "leader", new), (
            "other leases do not move to newer code"
        )
        assert await take("leader", new)
        assert not await take("leader", old), "older code must not take the lease back"
        assert await take("leader", new)
        third = await join(session, "third")
        assert not await take("leader", third), "with equal code the first worker stays leader"


async def test_the_tasks_move_when_the_leader_leaves_or_dies(
    database: Database, start_worker: StartWorker
) -> None:
    first = await start_worker(QUICK)
    await eventually(lambda: _leads(first))
    second = await start_worker(QUICK)
    assert not await _leads(second)
    assert await first.stop() == 0
    await eventually(lambda: _leads(second))

    third = await start_worker(QUICK)
    second.kill()
    await eventually(lambda: _leads(third))
    shown = await database.fetch(SQL["list_workers"], True, 10)
    assert [row["leads"] for row in shown] == [True, False, False]
    # The new leader runs the tasks.
    await database.execute(
        "update inboxd.workers set ended_at = now() - interval '8 days' where state = 'stopped'"
    )

    async def forgotten() -> bool:
        return bool(await database.fetchval("select count(*) from inboxd.workers") == 2)

    await eventually(forgotten)


async def test_a_new_leader_finishes_the_task_of_a_killed_one(
    database: Database, start_worker: StartWorker
) -> None:
    """The leader and its session die while it detaches a partition."""
    await make_day(database, 100)
    await settle(database, 100, 10)
    config = {**QUICK, "history": {"events": "30d", "commands": "30d"}}
    async with database.connect() as reader:
        await reader.execute("begin; select from inboxd.events_history limit 1")
        first = await start_worker(config)
        detaching = "from pg_stat_activity where query like 'ALTER TABLE%events_history%'"

        async def detaches() -> bool:
            return bool(await database.fetchval(f"select count(*) {detaching}"))

        await eventually(detaches)
        first.kill()
        await database.execute(f"select pg_terminate_backend(pid) {detaching}")
        second = await start_worker(config)
        await eventually(lambda: _leads(second))
        assert f"events_history{day(100)}" in await parts(database)
        await reader.execute("rollback")

    async def gone() -> bool:
        return not await parts(database)

    await eventually(gone)


async def _leads(worker: Worker) -> bool:
    return await worker.metric("inboxd_leader") == 1
