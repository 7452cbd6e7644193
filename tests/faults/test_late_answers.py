"""Late answers: claims after a death or a suspension, and reads that an outage interrupts."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest

from tests.support import Database, StartWorker, eventually, looked_again
from tests.support.locks import end_waiters, lock_awaited
from tests.support.rows import ExactlyOnce, Hasty, emit, send

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _held(database: Database, statement: str) -> AsyncIterator[asyncpg.Connection]:
    """Hold the locks of a statement during the block."""
    async with database.connect() as connection, connection.transaction():
        await connection.execute(statement)
        yield connection


async def _soon(database: Database, count: int) -> list[int]:
    """Insert commands due in three seconds: time to take the locks that their claim will need."""
    async with database.connect() as producer, producer.transaction():
        ids = await send(producer, count)
        await producer.execute("update inboxd.commands set run_at = now() + interval '3 s'")
    return ids


# Statements that wait for the test's lock wait until its end.
PATIENT = {"lock_timeout": "10m", "statement_timeout": "10m"}
CLAIM = "%picked AS MATERIALIZED%"
READ = "%JOIN inboxd.bodies%"


@pytest.mark.parametrize("how", ["stopped", "waiting"])
async def test_a_claim_of_a_worker_declared_dead_takes_nothing(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty, how: str
) -> None:
    """The claim is under way when the worker is declared dead; no command runs twice."""
    # At its first page, and once per lease, it looks for unknown leases: not before the claim.
    late = await start_worker(hasty(worker={"lease": "60s"}))
    await looked_again(ledger, "command", late)
    me = await ledger.fetchval("select id from inboxd.workers")
    ids = await _soon(ledger, 5)
    async with _held(ledger, "lock inboxd.commands in exclusive mode"):
        await lock_awaited(ledger, query=CLAIM)
        if how == "stopped":
            late.pause()
        # The reaper does this; the claim has not yet locked the worker's own row.
        await ledger.execute(
            "update inboxd.workers set state = 'dead', ended_at = now() where id = $1", me
        )
    if how == "stopped":
        other = await start_worker(hasty())
        await exactly_once("command", ids)
        late.resume()
        assert await other.stop() == 0
    await late.logged("this worker was declared dead")
    ids += await send(ledger, 3)
    await exactly_once("command", ids)
    rows = await ledger.fetch(
        "select distinct worker_id = $1, fence from inboxd.commands_history", me
    )
    assert [tuple(row) for row in rows] == [(False, 1)], "one claim each, none by the dead worker"


async def test_a_claim_that_arrives_after_a_suspension_is_released(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """A worker that could not renew its lease starts nothing, even of an earlier claim."""
    worker = await start_worker(hasty(database=PATIENT))
    await looked_again(ledger, "command", worker)
    # This blocks heartbeats and claims; a reaper too, which takes that for life.
    async with _held(ledger, "select from inboxd.workers for update"):
        ids = await send(ledger, 5)
        await lock_awaited(ledger, query=CLAIM)
        await worker.logged("work is suspended")
    await worker.logged("work goes on")
    await exactly_once("command", ids)
    rows = await ledger.fetch(
        "select distinct fence, attempts, crashes from inboxd.commands_history"
    )
    assert [tuple(row) for row in rows] == [(2, 1, 0)], "claimed twice, run once"


@pytest.mark.parametrize("kind", ["event", "command"])
async def test_an_outage_while_a_payload_is_read_spends_no_attempt(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, kind: str
) -> None:
    """The row is claimed, its payload is in `bodies`, and then the connection breaks."""
    ids = await (emit if kind == "event" else send)(ledger, 3, padding="x" * 5000)
    async with _held(ledger, "lock inboxd.bodies in access exclusive mode"):
        await start_worker({"types": {"test.ledger": {"retry": {"attempts": 1}}}})
        await lock_awaited(ledger, query=READ)
        assert await end_waiters(ledger, query=READ)
    await exactly_once(kind, ids)
    rows = await ledger.fetch(
        f"select distinct attempts, crashes, errors from inboxd.{kind}s_history"
    )
    assert [tuple(row) for row in rows] == [(1, 0, None)]


async def test_a_payload_that_arrives_after_a_suspension_starts_nothing(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """The commands were leased but not running, so nothing had to stop when the lease ended."""
    ids = await send(ledger, 3, padding="x" * 5000)

    async def are_given_back() -> bool:
        rows = await ledger.fetch("select status from inboxd.commands")
        return [row["status"] for row in rows] == ["pending"] * 3

    async with AsyncExitStack() as reads:
        await reads.enter_async_context(
            _held(ledger, "lock inboxd.bodies in access exclusive mode")
        )
        worker = await start_worker(hasty(database=PATIENT))
        await lock_awaited(ledger, query=READ)
        async with _held(ledger, "select from inboxd.workers for update"):
            await worker.logged("work is suspended")
            await reads.aclose()
            await eventually(are_given_back)
    await worker.logged("work goes on")
    await exactly_once("command", ids)
    rows = await ledger.fetch(
        "select distinct fence, attempts, crashes from inboxd.commands_history"
    )
    assert [tuple(row) for row in rows] == [(2, 1, 0)]
