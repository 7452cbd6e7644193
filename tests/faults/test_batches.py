"""Batches under faults: each continuation runs once, despite deaths at any moment (promise 6)."""

import json
import random
from collections import Counter
from functools import partial

import anyio
import anyio.to_thread
import pytest

from inboxd.embedded import Server
from inboxd.engine.batch_folder import BatchFolder
from tests.store import members
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.locks import end_waiters, lock_awaited
from tests.support.rows import Hasty, daemon_pool, daemon_session, emit, join
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

TOLD = {"type": "batch.told", "queue": "default", "payload": {"say": "then"}}


async def send_batch(database: Database, members: int, how: str = "ok") -> int:
    """Send a batch as a producer does, with one continuation; return its id."""
    member = {"type": "batch.work", "queue": "default", "payload": {"how": how}}
    batch: int = await database.fetchval(
        "select id from inboxd.send_batch('b', $1, $2)",
        json.dumps([member] * members),
        json.dumps(TOLD),
    )
    return batch


async def told(database: Database) -> Counter[str]:
    """The number of runs of each continuation."""
    return Counter(
        row[0]
        for row in await database.fetch("select note from ledger where note not in ('member', '')")
    )


async def settled(database: Database) -> bool:
    rows = await database.fetch(
        "select from inboxd.commands union all select from inboxd.events limit 1"
    )
    return not rows


async def clean(database: Database) -> None:
    """Wait until nothing is left to fold, and no command waits."""

    async def is_clean() -> bool:
        rows = await database.fetch(
            "select from inboxd.batch_progress union all select from inboxd.dependencies limit 1"
        )
        return not rows

    await eventually(is_clean)


async def test_a_death_between_append_and_fold_loses_no_fold(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """Its settlements have committed; the fold waits for a lock when the worker is killed."""
    batch = await send_batch(ledger, 3)
    async with daemon_session(ledger) as holder:
        async with holder.transaction():
            await holder.connection.execute(
                f"select from inboxd.batches where id = {batch} for update"
            )
            victim = await start_worker(hasty())

            async def appended() -> bool:
                done: int = await ledger.fetchval(
                    "select coalesce(sum(succeeded), 0)::int from inboxd.batch_progress"
                )
                return done == 3

            await eventually(appended)
            await lock_awaited(ledger)
            victim.kill()
            # The server has not noticed the death: it would fold when it gets the lock.
            await end_waiters(ledger)
            assert await ledger.fetchval("select succeeded from inboxd.batches") == 0
        assert await told(ledger) == {}
        await start_worker(hasty())
        await eventually(lambda: settled(ledger))
    with safety():
        assert await told(ledger) == {"then": 1}
    await clean(ledger)


async def test_a_locked_batch_delays_no_other(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """A producer closes a batch, and commits late; a fold that waits would wait ten minutes."""
    patient = {"lock_timeout": "10m", "statement_timeout": "10m"}
    await start_worker(hasty(database=patient, worker={"lease": "60s"}))
    opened = await ledger.fetch("select * from inboxd.open_batch('held', $1)", json.dumps(TOLD))
    batch, member = opened[0]["new_batch_id"], {"type": "batch.work", "queue": "default"}
    async with ledger.connect() as producer, producer.transaction():
        await ledger.fetch("select inboxd.add_to_batch($1, $2)", batch, json.dumps([member]))
        await producer.execute("select inboxd.close_batch($1)", batch)
        for _ in range(3):
            await send_batch(ledger, 2)
        await eventually(lambda: _are_told(ledger, 3))
    await eventually(lambda: _are_told(ledger, 4))


async def test_batches_beside_a_locked_one_are_folded_without_it(database: Database) -> None:
    """They are folded in one transaction, which fails; no sweep finds them."""
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        locked, *others = [await members.send_batch(session, 1) for _ in range(3)]
        me = await join(session)
        await members.settle(session, me, await members.claim(session, me))
        folder = BatchFolder(pool)

        async def has_folded(*expected: int) -> bool:
            rows = await database.fetch("select id from inboxd.batches where status = 'succeeded'")
            return {row[0] for row in rows} == set(expected)

        async with anyio.create_task_group() as tasks:
            async with session.transaction():
                await session.connection.execute(
                    f"select from inboxd.batches where id = {locked} for update"
                )
                for batch in (locked, *others):
                    folder.note(batch)
                tasks.start_soon(folder.run)
                await eventually(partial(has_folded, *others))
            await eventually(partial(has_folded, locked, *others))
            tasks.cancel_scope.cancel()


async def _are_told(database: Database, times: int) -> bool:
    return await told(database) == {"then": times}


async def test_each_continuation_runs_once_though_workers_are_killed(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    stories, choice = 12, random.Random(7)
    workers: list[Worker] = [await start_worker(hasty()), await start_worker(hasty())]
    payload = {"members": ["ok", "sql"], "times": 10, "inner": [["sql", "ok"], []]}
    steps = [
        ["a", "sql", []],
        ["mails", "batch", ["a"]],
        ["b", "sql", ["a"]],
        ["z", "blind", ["mails", "b finished"]],
    ]
    await emit(ledger, stories, "batch.make", **payload)
    await emit(ledger, stories, "flow.make", steps=steps)
    for _ in range(4):
        # Not a wait: the moment of the death varies.
        await anyio.sleep(choice.uniform(0.1, 0.5))
        workers.pop(0).kill()
        workers.append(await start_worker(hasty()))
    await eventually(lambda: settled(ledger), within=40)
    expected = ["then", "finally", "inner 0 then", "inner 0 finally", "inner 1 then"]
    expected += ["inner 1 finally", "mails then", "mails finally"]
    counts = dict.fromkeys(expected, stories) | {"then": 2 * stories, "finally": 2 * stories}
    of_steps = {"a": stories, "b": stories}
    with safety():
        assert await told(ledger) == counts | of_steps
    await clean(ledger)
    rows = await ledger.fetch("select status, count(*) from inboxd.batches group by 1")
    # Of each story: a batch with two inner batches, a workflow with one.
    assert [tuple(row) for row in rows] == [("succeeded", 5 * stories)]


async def test_a_fold_that_the_server_loses_is_folded_again(
    restartable_server: Server,
    restartable_database: Database,
    ledger: Database,
    start_worker: StartWorker,
) -> None:
    """A fold does not wait for the flush; the server dies as soon as the release is visible."""
    await start_worker()
    for _ in range(3):
        batch = await send_batch(ledger, 2)
        await eventually(partial(_is_released, ledger, batch))
        await anyio.to_thread.run_sync(restartable_server.restart, "immediate")
    await eventually(lambda: settled(ledger))
    await clean(ledger)
    with safety():
        assert await told(ledger) == {"then": 3}
    assert await ledger.fetchval("select bool_and(status = 'succeeded') from inboxd.batches")


async def _is_released(database: Database, batch: int) -> bool:
    found: bool = await database.fetchval(
        "select status = 'succeeded' from inboxd.batches where id = $1", batch
    )
    return found


@pytest.mark.parametrize(
    ("fills", "each"),
    [(10, 200), pytest.param(50, 2_000, marks=[pytest.mark.long, pytest.mark.soak])],
)
async def test_many_producers_fill_a_large_batch_while_its_members_run(
    ledger: Database, start_worker: StartWorker, hasty: Hasty, fills: int, each: int
) -> None:
    opened = await ledger.fetch("select * from inboxd.open_batch('big', $1)", json.dumps(TOLD))
    batch = str(opened[0]["new_batch_id"])
    for _ in range(2):
        await start_worker(hasty())
    fill = {"type": "batch.fill", "queue": "default", "payload": {"batch": batch, "count": each}}
    close = {**fill, "payload": {"batch": batch, "close": True}}
    # The close is a continuation of the fillers' batch.
    await ledger.fetch(
        "select inboxd.send_batch('fillers', $1, $2)", json.dumps([fill] * fills), json.dumps(close)
    )
    await eventually(lambda: settled(ledger), within=120)
    with safety():
        assert await told(ledger) == {"then": 1}
    await clean(ledger)
    row = (await ledger.fetch("select * from inboxd.batches where name = 'big'"))[0]
    assert (row["status"], row["size"], row["succeeded"]) == (
        "succeeded",
        fills * each,
        fills * each,
    )


async def test_two_workers_may_settle_members_of_a_batch_at_once(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """Many small batches, whose last members end at the same moment in different workers."""
    pages = {"commands": {"page_rows": 1, "concurrency": 4}}
    for _ in range(2):
        await start_worker(hasty(**pages))
    for _ in range(60):
        await send_batch(ledger, 2, "sql")
    await eventually(lambda: settled(ledger), within=40)
    with safety():
        assert await told(ledger) == {"then": 60}
    await clean(ledger)
