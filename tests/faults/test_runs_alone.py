"""Events that run alone after a death, each with its crash counted beforehand (ADR 3)."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from inboxd.store.session import Session
from tests.faults.storm import seeds, supervised
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.locks import end_waiters, lock_awaited
from tests.support.rows import ExactlyOnce, Hasty, daemon_session, emit

pytestmark = pytest.mark.anyio

# A marked event whose worker died is retried after this. A page that is idle for longer loses its
# session, and its events run alone without a death.
KEPT: dict[str, dict[str, Any]] = {"database": {"idle_in_transaction_timeout": "3s"}}

# Seconds for some lives of a worker, each of which may take ten seconds to start.
LIVES = 120

# A session that waits for the test must not be ended.
UNHURRIED: dict[str, dict[str, Any]] = {
    "database": {"idle_in_transaction_timeout": "20s"},
    "events": {"timeout": "10s"},
}


async def _in_a_page(database: Database) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from pg_locks where relation = 'ledger'::regclass"
        " and mode = 'RowExclusiveLock' and pid <> pg_backend_pid())"
    )
    return found


async def _runs_alone(database: Database) -> bool:
    marked: bool = await database.fetchval("select crashes = 1 from inboxd.events")
    return marked and await _in_a_page(database)


async def test_a_stop_during_a_lone_run_counts_no_crash(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """Three deploys with a short drain must not make a dead letter."""
    config = hasty(worker={"drain_timeout": "200ms"})
    victim = await start_worker(config)
    ids = await emit(ledger, 1, wait=0.9)
    await eventually(lambda: _in_a_page(ledger))
    victim.kill()
    for _ in range(3):
        worker = await start_worker(config)
        await eventually(lambda: _runs_alone(ledger))
        assert await worker.stop() == 0
        (row,) = await ledger.fetch(
            "select status, crashes, run_at <= now() as due from inboxd.events"
        )
        assert tuple(row) == ("pending", 0, True)
    await start_worker(config)
    await exactly_once("event", ids)


async def test_an_ended_session_counts_no_crash_even_if_its_locks_last(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """The third crash would convict it, but the row is still locked: the crash is taken back."""
    config = hasty(**UNHURRIED, types={"test.ledger": {"retry": {"attempts": 100}}})
    victim = await start_worker(config)
    ids = await emit(ledger, 1, wait=1)
    await eventually(lambda: _in_a_page(ledger))
    victim.kill()
    await start_worker(config)
    for _ in range(3):
        await eventually(lambda: _runs_alone(ledger))
        async with daemon_session(ledger) as other, other.transaction():
            await _take_over(ledger, other)
            await lock_awaited(ledger, who="inboxd daemon")
    await exactly_once("event", ids)
    assert await ledger.fetchval("select crashes from inboxd.events_history") == 0


async def _take_over(database: Database, other: Session) -> None:
    """End the session that runs the event, while `other` waits for the row's lock and gets it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other.connection.fetch, "select from inboxd.events for update")
        await lock_awaited(database, who="inboxd test")
        await database.execute(
            "select pg_terminate_backend(pid) from pg_locks where relation = 'ledger'::regclass"
            " and mode = 'RowExclusiveLock'"
        )


async def test_a_lost_session_counts_no_crash_while_the_processor_pauses(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """The pauses grow beyond the time for which other workers leave the event alone."""
    config = hasty(**UNHURRIED)
    victim = await start_worker(config)
    ids = await emit(ledger, 1, wait=0.9)
    await eventually(lambda: _in_a_page(ledger))
    victim.kill()
    async with daemon_session(ledger) as other, other.transaction():
        await other.connection.execute("lock table inboxd.events_history in share mode")
        worker = await start_worker(config)
        for times in range(1, 4):
            await lock_awaited(ledger, who="inboxd daemon")
            assert await end_waiters(ledger)
            await eventually(partial(_started_again, worker, times))
            assert await ledger.fetchval("select crashes from inboxd.events") == 0
    await exactly_once("event", ids)


async def _started_again(worker: Worker, times: int) -> bool:
    return worker.output().count("processor starts again") >= times


# A crash mark, once it is in the page's transaction, waits for the test.
_HELD_MARK = """
create function hold_mark() returns trigger language plpgsql as
$$ begin perform pg_advisory_xact_lock(7); return new; end $$;
create trigger hold_mark before update on inboxd.events for each row
    when (new.crashes > old.crashes) execute function hold_mark();
"""


async def test_a_marked_event_that_another_session_locks_counts_no_crash(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """Such as a claim that began before the mark: it locks the row, and then skips it."""
    config = hasty(**UNHURRIED)
    victim = await start_worker(config)
    ids = await emit(ledger, 1, wait=0.9)
    await eventually(lambda: _in_a_page(ledger))
    await ledger.execute(_HELD_MARK)
    victim.kill()
    had: list[object] = []
    async with ledger.connect() as holder, ledger.connect() as other, other.transaction():

        async def have_it() -> None:
            had.extend(await other.fetch("select from inboxd.events for update"))

        await holder.execute("select pg_advisory_lock(7)")
        await start_worker(config)
        await lock_awaited(ledger, who="inboxd daemon")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(have_it)
            await lock_awaited(ledger, 2)
            await holder.execute("select pg_advisory_unlock(7)")
        if had:  # otherwise the worker was faster
            await lock_awaited(ledger, who="inboxd daemon")
    await exactly_once("event", ids)
    assert await ledger.fetchval("select crashes from inboxd.events_history") == 0


# ------------------------------------------------------------------------------------ poison


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with at most 150 MB; beyond that the kernel kills a process."""
    for root, limit in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ("/sys/fs/cgroup", "memory.max"),
    ):
        folder = Path(root) / f"inboxd-test-{uuid4().hex[:8]}"
        try:
            folder.mkdir()
            (folder / limit).write_text(str(150_000_000))
        except OSError:
            if folder.exists():
                folder.rmdir()
            continue
        yield folder
        folder.rmdir()
        return
    pytest.skip("no memory limit can be set here: that needs root, and control groups")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(long=2))
@pytest.mark.parametrize(
    "how",
    [
        "kill",
        pytest.param("crash", marks=pytest.mark.long),
        pytest.param("eat memory", marks=pytest.mark.long),
    ],
)
async def test_one_of_a_thousand_events_that_kills_is_convicted(
    request: pytest.FixtureRequest,
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    how: str,
    seed: int,
) -> None:
    """One death in the page, three alone; then the fifth worker makes it a dead letter."""
    words: dict[str, Any] = {"how": how}
    if how == "eat memory":
        words["group"] = str(request.getfixturevalue("group"))
    before = random.Random(seed).randrange(1000)
    async with ledger.connect() as producer, producer.transaction():
        ids = await emit(producer, before)
        (poison,) = await emit(producer, 1, "test.misbehave", **words)
        ids += await emit(producer, 999 - before)
    async with supervised(start_worker, hasty(**KEPT)) as lives:
        await eventually(lambda: _convicted(ledger, poison), within=LIVES)
        await exactly_once("event", ids)
    assert len(lives) <= 5
    (row,) = await ledger.fetch("select attempts, crashes, errors->-1->>'error' from inboxd.events")
    assert row["crashes"] == 3
    assert "3 times" in row[2]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(long=3))
async def test_poison_among_more_events_than_a_page_has_is_convicted(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    seed: int,
) -> None:
    """Between two deaths alone it may get into a page again, but only once."""
    chance = random.Random(seed)
    ids = await emit(ledger, chance.randrange(100))
    (poison,) = await emit(ledger, 1, "test.misbehave", how="kill")
    async with supervised(start_worker, hasty(**KEPT, events={"page_rows": 10})) as lives:
        for _ in range(200):
            ids += await emit(ledger, chance.randrange(40))
            if await _convicted(ledger, poison):
                break
            await eventually(lambda: _few_are_left(ledger), within=LIVES)
        await eventually(lambda: _convicted(ledger, poison), within=LIVES)
        await exactly_once("event", ids)
    assert len(lives) <= 1 + 2 * 3 + 1


async def _few_are_left(database: Database) -> bool:
    left: int = await database.fetchval("select count(*) from inboxd.events")
    return left < 20


async def _convicted(database: Database, row: int) -> bool:
    found: bool = await database.fetchval(
        "select status = 'failed' from inboxd.events where id = $1", row
    )
    return found
