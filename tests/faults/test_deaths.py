"""Workers that die, or seem to: every effect counts once, and only rows that kill are convicted."""

import math
import random

import anyio
import pytest

from tests.faults.storm import supervised
from tests.support import Database, StartWorker, eventually
from tests.support.rows import ExactlyOnce, Hasty, emit, send
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

EVENTS = 60
COMMANDS = 8


async def _in_a_page(database: Database) -> bool:
    """Whether an event's handler has written, and its page is not committed."""
    found: bool = await database.fetchval(
        "select exists (select from pg_locks join pg_stat_activity using (pid)"
        " where relation = 'ledger'::regclass and mode = 'RowExclusiveLock'"
        " and datname = current_database())"
    )
    return found


async def _running(database: Database, count: int) -> bool:
    """Whether at least this many commands have written, each in its own open transaction."""
    found: int = await database.fetchval(
        "select count(*) from pg_locks join pg_stat_activity using (pid)"
        " where relation = 'ledger'::regclass and mode = 'RowExclusiveLock'"
        " and application_name = 'inboxd handlers' and datname = current_database()"
    )
    return found >= count


@pytest.mark.parametrize("survivor", ["a restarted worker", "another worker"])
async def test_a_page_whose_worker_is_killed_is_handled_once(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    survivor: str,
) -> None:
    victim = await start_worker(hasty())
    ids = await emit(ledger, EVENTS, wait=0.02)
    await eventually(lambda: _in_a_page(ledger))
    if survivor == "another worker":
        await start_worker(hasty())
    victim.kill()
    if survivor == "a restarted worker":
        await start_worker(hasty())
    await exactly_once("event", ids)
    (row,) = await ledger.fetch("select max(attempts), max(crashes) from inboxd.events_history")
    assert tuple(row) == (1, 0), "a death is not an attempt; lone runs after it count no crash"


async def test_commands_whose_worker_is_killed_run_once(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    workers = [await start_worker(hasty()), await start_worker(hasty())]
    ids = await send(ledger, COMMANDS, wait=0.3)
    await eventually(lambda: _running(ledger, COMMANDS))
    # Two workers that wake together may share the page.
    [holder, *_] = await ledger.fetch(
        "select w.pid, array_agg(c.id) as held from inboxd.workers w "
        "join inboxd.commands c on c.worker_id = w.id group by w.pid"
    )
    next(worker for worker in workers if worker.process.pid == holder["pid"]).kill()
    await exactly_once("command", ids)
    rows = await ledger.fetch("select id, attempts, crashes from inboxd.commands_history")
    assert {row["attempts"] for row in rows} == {1}, "a death is a crash, not an attempt"
    assert {row["id"] for row in rows if row["crashes"] == 1} == set(holder["held"])
    states = await ledger.fetch("select state from inboxd.workers order by state")
    assert [row["state"] for row in states] == ["dead", "running"]


async def test_a_death_while_producers_are_silent_delays_no_row(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """The flag stays at 0 when its worker is killed; the reaper sets it, long before the poll."""
    config = hasty(worker={"poll_interval": "1h"})
    victim = await start_worker(config)
    await start_worker(config)
    await eventually(lambda: _workers(ledger, 2))
    victim.kill()
    await ledger.execute(
        "select setval('inboxd.events_flag', 0), setval('inboxd.commands_flag', 0)"
    )
    events, commands = await emit(ledger, 3), await send(ledger, 3)
    await exactly_once("event", events)
    await exactly_once("command", commands)


async def _workers(database: Database, count: int) -> bool:
    found: int = await database.fetchval(
        "select count(*) from inboxd.workers where state = 'running' and heartbeat > 1"
    )
    return found == count


async def test_two_workers_share_the_work(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce
) -> None:
    one, two = await start_worker(), await start_worker()
    events: list[int] = []
    commands: list[int] = []
    for _ in range(20):
        events += await emit(ledger, 50, sends=1)
        commands += await send(ledger, 25)
    await eventually(lambda: _nothing_left(ledger))
    children = await ledger.fetch(
        "select id from inboxd.commands_history where origin_kind = 'event'"
    )
    with safety():
        assert len(children) == len(events)
    await exactly_once("event", events)
    await exactly_once("command", [*commands, *(row["id"] for row in children)])
    shares = await ledger.fetch("select distinct worker_id from inboxd.commands_history")
    assert len(shares) == 2, "both workers had a share"
    assert [await one.stop(), await two.stop()] == [0, 0]


async def _nothing_left(database: Database) -> bool:
    left: int = await database.fetchval(
        "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"
    )
    return left == 0


# ------------------------------------------------------------------------------------ frozen


async def test_a_worker_frozen_beyond_its_lease_changes_nothing(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    fresh_seed: int,
) -> None:
    """The seed draws its commands, the moment of the freeze, and the end of it."""
    chance = random.Random(fresh_seed)
    # Longer than a machine pauses: only the frozen worker may die.
    config = hasty(worker={"lease": "10s"})
    stopped = await start_worker(config)
    wait = chance.uniform(0.6, 1.2)
    own = await send(ledger, chance.randint(1, 3), wait=wait)
    silent = await send(ledger, chance.randint(1, 3), "test.wait", queue="slow", wait=wait)
    await eventually(lambda: _running(ledger, len(own)))
    # Not a wait: the moment of the freeze varies.
    await anyio.sleep(chance.uniform(0, wait / 3))
    stopped.pause()
    other = await start_worker(config)
    if chance.random() < 0.5:
        await eventually(lambda: _is_dead(ledger))  # its commands may still run elsewhere
    else:
        await exactly_once("command", own)
        await eventually(lambda: _nothing_left(ledger))
    stopped.resume()
    await stopped.logged("this worker was declared dead")
    await stopped.ready()
    await exactly_once("command", own)
    await eventually(lambda: _nothing_left(ledger))
    # It returns as a new incarnation, which works; its late results changed nothing.
    assert await other.stop() == 0
    more = await send(ledger, 1)
    await exactly_once("command", [*own, *more])
    history = await ledger.fetch("select attempts, crashes from inboxd.commands_history")
    assert sorted(tuple(row) for row in history) == [(1, 0), *[(1, 1)] * len(own + silent)]
    states = await ledger.fetch("select state from inboxd.workers order by started_at")
    assert [row["state"] for row in states] == ["dead", "stopped", "running"]


async def _is_dead(database: Database) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from inboxd.workers where state = 'dead')"
    )
    return found


@pytest.mark.parametrize("type_", ["test.ledger", "test.wait"])
async def test_a_late_settlement_changes_nothing(
    ledger: Database, start_worker: StartWorker, type_: str
) -> None:
    """The lease is taken away between two heartbeats: the worker does not notice, and settles."""
    worker = await start_worker({"worker": {"lease": "60s", "heartbeat_interval": "15s"}})
    (row,) = await send(ledger, 1, type_, wait=1)
    await eventually(lambda: _is_claimed(ledger))
    await ledger.execute(
        "update inboxd.commands set status = 'pending', worker_id = null, fence = fence + 1,"
        " run_at = now() + interval '1 hour'"
    )
    await worker.logged("lease lost")
    (found,) = await ledger.fetch("select id, status, attempts, fence from inboxd.commands")
    assert tuple(found) == (row, "pending", 0, 2)
    with safety():
        assert await ledger.fetchval("select count(*) from ledger") == 0
    assert await ledger.fetchval("select count(*) from inboxd.commands_history") == 0


async def _is_claimed(database: Database) -> bool:
    found: bool = await database.fetchval("select status = 'running' from inboxd.commands")
    return found


# ------------------------------------------------------------------------------------ poison


@pytest.mark.timeout(240)
async def test_a_command_that_kills_its_worker_is_convicted(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    before = await send(ledger, 5)
    (poison,) = await send(ledger, 1, "test.misbehave", how="kill")
    after = await send(ledger, 5)
    # Short, since each life waits for the lease of the last one; no life has a living peer.
    config = hasty(worker={"lease": "1500ms", "heartbeat_interval": "300ms"})
    async with supervised(start_worker, config) as lives:
        await eventually(lambda: _convicted(ledger, "commands", poison), within=120)
        await exactly_once("command", before + after)
    (row,) = await ledger.fetch(
        "select attempts, crashes, lone_crashes, errors from inboxd.commands"
    )
    assert (row["attempts"], row["crashes"]) == (0, len(lives) - 1)
    assert row["lone_crashes"] == 3, "only deaths while it ran alone convict"
    assert len(lives) - 1 <= 3 + math.ceil(math.log2(len(before) + len(after) + 1)) + 1
    assert row["errors"].count("WorkerDied") == row["crashes"]


async def _convicted(database: Database, table: str, row: int) -> bool:
    found: bool = await database.fetchval(
        f"select status = 'failed' from inboxd.{table} where id = $1", row
    )
    return found
