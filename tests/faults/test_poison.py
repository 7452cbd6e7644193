"""Suspects run in groups after a death; the one that kills is found, and no other is convicted."""

import math
from typing import Any
from uuid import uuid4

import anyio
import pytest

from tests.faults.storm import supervised
from tests.support import Database, StartWorker, eventually
from tests.support.rows import Hasty, emit, send

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

# Each life waits for the lease of the last one. A machine that pauses for longer than a lease stops
# the commands that run.
BRIEF: dict[str, Any] = {"lease": "5s", "heartbeat_interval": "1s"}
LIMIT = 3
# A command that has two crashes and must run alone, as the reaper leaves it.
SUSPECT = (
    "update inboxd.commands set crashes = 2, suspect_group = gen_random_uuid(), lone_crashes = 0,"
    " run_at = now() where id = $1"
)


async def _running(database: Database, ids: list[int]) -> int:
    find = "select count(*) from inboxd.commands where status = 'running' and id = any($1)"
    count: int = await database.fetchval(find, ids)
    return count


async def _most_at_once(database: Database, ids: list[int]) -> int:
    """The largest number of these commands that ran at the same time."""
    count: int = await database.fetchval(
        "select max(n) from (select count(*) as n from inboxd.commands_history a"
        " join inboxd.commands_history b on a.started_at between b.started_at and b.finished_at"
        " where a.id = any($1) and b.id = any($1) group by a.id) as each",
        ids,
    )
    return count


async def _ended(database: Database, ids: list[int], dead: list[int]) -> bool:
    done: bool = await database.fetchval(
        "select (select count(*) from inboxd.commands_history"
        "         where id = any($1) and status = 'succeeded') = cardinality($1)"
        "   and (select count(*) from inboxd.commands"
        "         where id = any($2) and status = 'failed') = cardinality($2)",
        ids,
        dead,
    )
    return done


@pytest.mark.long
async def test_one_of_a_hundred_commands_that_kills_is_convicted(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    async with ledger.connect() as session, session.transaction():
        innocent = await send(session, 60, "test.wait", wait=1)
        (poison,) = await send(session, 1, "test.misbehave", how="kill", touch=False)
        innocent += await send(session, 39, "test.wait", wait=1)
    async with supervised(start_worker, hasty(worker=BRIEF)) as lives:
        await eventually(lambda: _ended(ledger, innocent, [poison]), within=200)
    assert len(lives) - 1 <= math.ceil(math.log2(100)) + LIMIT + 1
    assert await _most_at_once(ledger, innocent) >= 25, "commands of a group run side by side"
    (row,) = await ledger.fetch("select id, crashes, lone_crashes, errors from inboxd.commands")
    assert (row["id"], row["lone_crashes"]) == (poison, LIMIT), (
        "only deaths while it ran alone convict"
    )
    assert row["errors"].count("WorkerDied") == row["crashes"] == len(lives) - 1


@pytest.mark.long
async def test_unrelated_deaths_convict_no_command(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    config = hasty(worker=BRIEF)
    ids = await send(ledger, 20, "test.wait", wait=2)
    worker = await start_worker(config)
    await eventually(lambda: _all_run(ledger, ids))
    worker.kill()
    worker = await start_worker(config)
    await eventually(lambda: _all_run(ledger, ids))  # side by side, as before
    for _ in range(LIMIT + 1):
        worker.kill()
        ids += await send(ledger, 2, "test.wait", wait=2)
        worker = await start_worker(config)
        await eventually(lambda: _any_suspect_runs(ledger))
    await eventually(lambda: _ended(ledger, ids, []), within=60)
    assert await ledger.fetchval("select max(crashes) from inboxd.commands_history") >= 3


async def _all_run(database: Database, ids: list[int]) -> bool:
    return await _running(database, ids) == len(ids)


async def _any_suspect_runs(database: Database) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from inboxd.commands c join inboxd.workers w on w.id = c.worker_id"
        " where c.crashes > 0 and w.state = 'running'"
        " and w.started_at = (select max(started_at) from inboxd.workers))"
    )
    return found


@pytest.mark.long
async def test_poison_is_found_in_a_line_and_in_a_limited_queue(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """Two commands of one group kill, each of another source of claims."""
    insert = (
        "insert into inboxd.commands (type, queue, ordering_key, payload)"
        " values ($1, $2, $3, $4) returning id"
    )
    kill, wait = '{"how": "kill", "touch": false}', '{"wait": 0.5}'
    async with ledger.connect() as session, session.transaction():
        innocent = await send(session, 4, "test.wait", wait=0.5)
        kept = [
            await session.fetchval(insert, type_, queue, key, payload)
            for type_, queue, key, payload in (
                ("test.wait", "keyed", "a", wait),
                ("test.misbehave", "keyed", "a", kill),
                ("test.wait", "keyed", "a", wait),
                ("test.wait", "keyed", "b", wait),
                ("test.wait", "tight", None, wait),
                ("test.misbehave", "tight", None, kill),
                ("test.wait", "tight", None, wait),
            )
        ]
    poison, behind = [kept[1], kept[5]], kept[2]
    innocent += [id_ for id_ in kept if id_ not in (*poison, behind)]
    config = hasty(worker=BRIEF, queues={"tight": {"total_concurrency": 2}})
    async with supervised(start_worker, config) as lives:
        await eventually(lambda: _ended(ledger, innocent, poison), within=200)
    assert len(lives) <= 20
    status = await ledger.fetchval("select status from inboxd.commands where id = $1", behind)
    assert status == "waiting", "it stands behind the dead letter of its key"


async def test_a_suspect_runs_alone_under_steady_load(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    (suspect,) = await send(ledger, 1, "test.wait", wait=0.5)
    await ledger.execute("update inboxd.commands set run_at = now() + interval '1 hour'")
    await start_worker(hasty(worker={"lease": "60s"}))
    ids: list[int] = []
    over = anyio.Event()

    async def load() -> None:
        while not over.is_set():
            ids.extend(await send(ledger, 2, "test.wait", wait=0.3))
            await emit(ledger, 1)
            with anyio.move_on_after(0.02):
                await over.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(load)
        await eventually(lambda: _settled(ledger, 20))
        await ledger.execute(SUSPECT, suspect)
        await eventually(lambda: _ended(ledger, [suspect], []))
        over.set()
    await eventually(lambda: _ended(ledger, ids, []))
    beside = (
        "select count(*) from inboxd.{}_history o, inboxd.commands_history s"
        " where s.id = $1 and {} and o.finished_at > s.started_at"
        " and {} < s.finished_at - interval '50 ms'"
    )
    command = beside.format("commands", "o.id <> s.id", "o.started_at")
    assert await ledger.fetchval(command, suspect) == 0
    event = beside.format("events", "true", "o.finished_at")
    assert await ledger.fetchval(event, suspect) == 0
    assert await ledger.fetchval("select count(*) from inboxd.events_history") > 10


async def test_commands_of_its_key_do_not_delay_a_suspects_run_alone(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """They are suspects too, leased with it, and stand behind it."""
    ids = await send(ledger, 3, "test.wait", wait=0.1)
    await ledger.execute("update inboxd.commands set run_at = now() + interval '1 hour'")
    await ledger.execute(
        "update inboxd.commands set crashes = 1, suspect_group = $2, ordering_key = 'a',"
        " status = 'waiting', line_at = now(), run_at = now() where id = any($1)",
        ids,
        uuid4(),
    )
    await ledger.execute(SUSPECT, ids[0])
    await start_worker(hasty(worker={"lease": "60s"}))
    await eventually(lambda: _ended(ledger, ids, []))


async def _settled(database: Database, count: int) -> bool:
    found: int = await database.fetchval("select count(*) from inboxd.commands_history")
    return found >= count


async def test_an_event_that_kills_does_not_convict_a_command_that_runs_alone(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    (suspect,) = await send(ledger, 1, "test.wait", wait=1.5)
    await ledger.execute(SUSPECT, suspect)
    # A single death would convict it.
    async with supervised(start_worker, hasty(worker={**BRIEF, "crash_limit": 1})) as lives:
        await eventually(lambda: _all_run(ledger, [suspect]))
        (poison,) = await emit(ledger, 1, "test.misbehave", how="kill")
        await eventually(lambda: _ended(ledger, [suspect], []), within=60)
        await eventually(lambda: _is_dead(ledger, poison), within=60)
    assert len(lives) >= 2, "the event killed no worker"


async def _is_dead(database: Database, event: int) -> bool:
    status = await database.fetchval("select status from inboxd.events where id = $1", event)
    return bool(status == "failed")
