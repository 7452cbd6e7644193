"""Settlements count only for the claim that holds the lease, and change a row once."""

from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID, uuid4

import anyio
import orjson
import pytest

from inboxd.api import messages
from inboxd.api.drafts import CommandDraft
from inboxd.commands.ended import EndedCommand
from inboxd.commands.settler import Settler
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine.batch_folder import BatchFolder
from inboxd.engine.fleet import Fleet
from inboxd.errors import LeaseLost
from inboxd.model.lane import Lane
from inboxd.model.lineage import Lineage
from inboxd.store import commands, events, workers
from inboxd.store.pools import Pool
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from inboxd.store.settlements import Parent, Requeue, Settlement
from inboxd.telemetry.metrics import Metrics
from tests.support import Database, eventually
from tests.support.locks import end_waiters, lock_awaited
from tests.support.rows import create_ledger, daemon_pool, daemon_session, emit, join, send

pytestmark = pytest.mark.anyio


async def _claimed(session: Session, worker: UUID, count: int = 1) -> list[ClaimedCommand]:
    await send(session.connection, count, "test.noop")
    lane = Lane(("default", "test.noop", 0))
    rows = await commands.claim(session, worker, {"default": 100}, [lane], 100)
    assert len(rows) == count
    return rows


def _succeeded(row: messages.Row, result: str | None = None) -> Settlement:
    return Settlement(row["id"], row["fence"], "succeeded", 1.5, result)


def _retry(row: ClaimedCommand) -> Requeue:
    entry = orjson.dumps({"attempt": 1, "error": "as told"}).decode()
    return Requeue(row["id"], "pending", 1, delay=60.0, error=entry, fence=row["fence"])


async def _lose(session: Session, worker: UUID, how: str) -> None:
    """Take a worker's commands away in the named way."""
    match how:
        case "reaped":
            await session.execute("declare_dead", worker)
            await session.fetch("reap_commands", worker, 3)
        case "released":
            await commands.release(session, worker)
        case "claimed again by itself":
            await commands.release(session, worker)
            lane = Lane(("default", "test.noop", 0))
            assert await commands.claim(session, worker, {"default": 9}, [lane], 9)
        case "claimed by another":
            await commands.release(session, worker)
            lane, other = Lane(("default", "test.noop", 0)), await join(session, "other")
            assert await commands.claim(session, other, {"default": 9}, [lane], 9)
        case "settled":
            rows = await session.connection.fetch("select id, fence from inboxd.commands")
            await commands.settle(session, worker, [_succeeded(row) for row in rows])


LOSSES = ["reaped", "released", "claimed again by itself", "claimed by another", "settled"]


async def _state(session: Session) -> list[Any]:
    return [
        await session.connection.fetch(f"select to_jsonb(c) from inboxd.{table} c order by id")
        for table in ("commands", "commands_history")
    ]


@pytest.mark.parametrize("how", LOSSES)
async def test_a_stale_claim_changes_nothing(database: Database, how: str) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        (row,) = await _claimed(session, worker)
        await _lose(session, worker, how)
        before = await _state(session)
        assert await commands.settle(session, worker, [_succeeded(row)]) == set()
        assert await commands.requeue(session, worker, [_retry(row)]) == set()
        assert await _state(session) == before


async def test_unchanged_rows_have_equal_times_of_creation_and_update(database: Database) -> None:
    """Chunks compare `updated_at` with `created_at` to find rows that an operator has changed."""
    for table in ("events", "commands"):
        await database.execute(
            f"insert into inboxd.{table} (type) select 'test.noop' from generate_series(1, 500)"
        )
        changed = f"select count(*) from inboxd.{table} where updated_at <> created_at"
        assert await database.fetchval(changed) == 0


async def test_late_writes_of_a_transaction_have_their_own_times(database: Database) -> None:
    """A handler may begin its transaction, work for minutes, and then send commands and end."""
    async with daemon_session(database) as session:
        worker = await join(session)
        (row,) = await _claimed(session, worker)
        (event,) = await emit(session.connection, 1, "test.noop")
        async with session.transaction():
            await session.connection.execute("select pg_sleep(0.2)")
            late = await session.connection.fetchval("select clock_timestamp()")
            await commands.insert(session, [(_draft(1), Parent("command", row["id"], Lineage()))])
            batch = await session.connection.fetchval("select id from inboxd.open_batch('late')")
            (sent,) = await send(session.connection, 1, "test.noop")
            (emitted,) = await emit(session.connection, 1, "test.noop")
            await events.settle(session, [(event, 0.2)], worker)
            await commands.settle_own(session, worker, _succeeded(row), "select")
        for table, times, ids in (
            ("commands_history", "updated_at, finished_at", [row["id"]]),
            ("events_history", "updated_at, finished_at", [event]),
            ("commands", "created_at, updated_at", [sent]),
            ("commands", "created_at, run_at", [sent - 1]),
            ("events", "created_at, updated_at", [emitted]),
            ("batches", "created_at, updated_at", [batch]),
        ):
            query = f"select least({times}) from inboxd.{table} where id = any ($1)"
            assert await session.connection.fetchval(query, ids) >= late, (table, times)


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("result", [None, '{"n": 1}'])
async def test_a_stale_commit_leaves_no_effect(
    database: Database, how: str, result: str | None
) -> None:
    await create_ledger(database)
    async with daemon_session(database) as session, daemon_session(database) as own:
        worker = await join(session)
        (row,) = await _claimed(session, worker)
        await own.connection.execute("BEGIN")
        await own.connection.execute("insert into ledger values ('command', 1, 'stale')")
        await _lose(session, worker, how)
        before = await _state(session)
        with pytest.raises(LeaseLost, match=f"command {row['id']}"):
            await commands.settle_own(own, worker, _succeeded(row, result), "COMMIT")
        await own.connection.execute("ROLLBACK")
        assert await _state(session) == before
    assert await database.fetchval("select count(*) from ledger") == 0


# ------------------------------------------------------------ in two sessions at once


async def _gathered(session: Session, worker: UUID, row: ClaimedCommand) -> bool:
    return bool(await commands.settle(session, worker, [_succeeded(row)]))


async def _requeue(session: Session, worker: UUID, row: ClaimedCommand) -> bool:
    return bool(await commands.requeue(session, worker, [_retry(row)]))


async def _folded(session: Session, worker: UUID, row: ClaimedCommand) -> bool:
    """Settle in the handler's transaction, which writes to the ledger; COMMIT comes with it."""
    await session.connection.execute("BEGIN; insert into ledger values ('command', 1, 'mine')")
    try:
        await commands.settle_own(session, worker, _succeeded(row), "COMMIT")
    except LeaseLost:
        await session.connection.execute("ROLLBACK")
        return False
    return True


SETTLEMENTS = [_gathered, _requeue, _folded]
Settle = Callable[[Session, UUID, ClaimedCommand], Awaitable[bool]]


@pytest.mark.parametrize("settle", SETTLEMENTS)
@pytest.mark.parametrize("taker", ["reaper", "release", "its own next claim"])
async def test_settlement_that_waits_while_its_lease_is_lost_changes_nothing(
    database: Database, settle: Settle, taker: str
) -> None:
    """The row is taken back while the settlement waits for it."""
    await create_ledger(database)
    counted: list[bool] = []
    async with daemon_session(database) as other, daemon_session(database) as own:
        worker = await join(other)
        (row,) = await _claimed(other, worker)

        async def try_to_settle() -> None:
            counted.append(await settle(own, worker, row))

        async with anyio.create_task_group() as tasks, other.transaction():
            if taker == "reaper":
                assert await other.fetchval("lock_worker", worker, 0) == worker
                await other.execute("declare_dead", worker)
                assert len(await other.fetch("reap_commands", worker, 3)) == 1
            else:
                assert await commands.release(other, worker) == 1
            if taker == "its own next claim":  # only the fence differs
                lane = Lane(("default", "test.noop", 0))
                assert await commands.claim(other, worker, {"default": 9}, [lane], 9)
            tasks.start_soon(try_to_settle)
            await lock_awaited(database)
            before = await _state(other)
        assert counted == [False]
        assert await _state(other) == before
    assert await database.fetchval("select count(*) from ledger") == 0


@pytest.mark.parametrize("settle", [_gathered, _requeue])
async def test_a_release_waits_for_a_settlement_under_way(
    database: Database, settle: Settle
) -> None:
    released: list[int] = []
    async with daemon_session(database) as other, daemon_session(database) as own:
        worker = await join(other)
        (row,) = await _claimed(other, worker)

        async def release() -> None:
            released.append(await commands.release(other, worker))

        async with anyio.create_task_group() as tasks, own.transaction():
            assert await settle(own, worker, row)
            tasks.start_soon(release)
            await lock_awaited(database)
            before = await _state(own)
        assert released == [0]
        assert await _state(other) == before


@pytest.mark.parametrize("settle", [_gathered, _requeue])
async def test_a_reaper_leaves_a_settlement_under_way_alone(
    database: Database, settle: Settle
) -> None:
    async with (
        daemon_pool(database) as pool,
        daemon_session(database) as other,
        daemon_session(database) as own,
    ):
        worker = await join(other)
        (row,) = await _claimed(other, worker)
        async with own.transaction():
            assert await settle(own, worker, row)
            assert await workers.declare_dead(pool, worker, 0, 3) is None
            before = await _state(own)
        assert await _state(other) == before
        assert await workers.declare_dead(pool, worker, 0, 3) == []
        assert await _state(other) == before


async def test_a_settlement_moves_the_row_into_history_once(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        rows = await _claimed(session, worker, 3)
        ended = [_succeeded(row, '{"n": 1}') for row in rows]
        assert await commands.settle(session, worker, ended) == {row["id"] for row in rows}
        assert await commands.settle(session, worker, ended) == set()
        assert await session.connection.fetchval("select count(*) from inboxd.commands") == 0
        history = await session.connection.fetch(
            "select id, status, attempts, worker_id, result->>'n' as n, duration,"
            " finished_at >= started_at as later from inboxd.commands_history order by id"
        )
    assert [row["id"] for row in history] == sorted(row["id"] for row in rows)
    for row in history:
        assert (row["status"], row["attempts"], row["worker_id"]) == ("succeeded", 1, worker)
        assert (row["n"], row["duration"].total_seconds(), row["later"]) == ("1", 1.5, True)


async def test_page_with_an_event_settled_elsewhere_is_refused(database: Database) -> None:
    async with daemon_session(database) as session:
        for _ in range(2):
            await session.connection.execute(
                "insert into inboxd.events (type) values ('test.noop')"
            )
        ids = [row["id"] for row in await session.connection.fetch("select id from inboxd.events")]
        await events.settle(session, [(ids[0], 0.1)], uuid4())
        with pytest.raises(LeaseLost, match="1 of 2 events"):
            async with session.transaction():
                await events.settle(session, [(row, 0.1) for row in ids], uuid4())
        assert await session.connection.fetchval("select count(*) from inboxd.events") == 1
        assert await session.connection.fetchval("select count(*) from inboxd.events_history") == 1


@pytest.mark.parametrize("result", [None, '{"n": 1}'])
async def test_a_command_commits_with_its_effects(database: Database, result: str | None) -> None:
    await create_ledger(database)
    async with daemon_session(database) as session:
        worker = await join(session)
        (row,) = await _claimed(session, worker)
        await session.connection.execute("BEGIN")
        await session.connection.execute("insert into ledger values ('command', 1, 'mine')")
        await commands.settle_own(session, worker, _succeeded(row, result), "COMMIT")
        assert not session.connection.is_in_transaction()
    assert await database.fetchval("select count(*) from ledger") == 1
    assert await database.fetchval("select result::text from inboxd.commands_history") == result


async def test_a_requeue_keeps_the_history_of_errors_bounded(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        (row,) = await _claimed(session, worker)
        await session.connection.execute(
            "update inboxd.commands set errors ="
            " (select jsonb_agg(jsonb_build_object('n', n)) from generate_series(1, 50) n)"
        )
        assert await commands.requeue(session, worker, [_retry(row)]) == {row["id"]}
        found = await session.connection.fetchrow(
            "select status, attempts, worker_id, errors, run_at > now() + interval '50 s' as later"
            " from inboxd.commands"
        )
    assert found is not None
    assert (found["status"], found["attempts"], found["worker_id"]) == ("pending", 1, None)
    assert found["later"]
    errors = orjson.loads(found["errors"])
    assert len(errors) == 50
    assert errors[0] == {"n": 2}
    assert errors[-1]["error"] == "as told"


async def _die(session: Session, pool: Pool, held: Sequence[int], *, alone: bool | None) -> None:
    """Let a worker die with these commands leased; alone=None: a worker of an older release."""
    worker = await join(session)
    await session.connection.execute(
        "update inboxd.commands set status = 'running', worker_id = $1, fence = fence + 1,"
        " alone_fence = case $3::boolean when true then fence + 1 when false then null"
        " else alone_fence end where id = any($2)",
        worker,
        held,
        alone,
    )
    assert await workers.declare_dead(pool, worker, 0, 2) is not None


async def _groups(session: Session) -> list[list[int]]:
    rows = await session.connection.fetch(
        "select array_agg(id order by id) from inboxd.commands where suspect_group is not null"
        " group by suspect_group order by min(id)"
    )
    return [row[0] for row in rows]


async def test_a_death_counts_as_a_crash_and_splits_groups(database: Database) -> None:
    async with daemon_session(database) as session, daemon_pool(database) as pool:
        a, b, c, d, e, new = await send(session.connection, 6, "test.noop")
        await _die(session, pool, [a, b, c, d, e], alone=False)
        assert await _groups(session) == [[a, b, c, d, e]]
        await _die(session, pool, [a, b, c, d, e, new], alone=False)
        assert await _groups(session) == [[a, b, c], [d, e], [new]], "a new one gets its own group"
        await _die(session, pool, [d, e], alone=False)
        assert await _groups(session) == [[a, b, c], [d], [e], [new]]
        await _die(session, pool, [b, new], alone=False)
        rows = await session.connection.fetch(
            "select id, crashes, lone_crashes from inboxd.commands order by id"
        )
        assert [tuple(row) for row in rows] == [
            *((a, 2, None), (b, 3, 0), (c, 2, None)),
            *((d, 3, 0), (e, 3, 0), (new, 2, 0)),
        ], "a suspect alone in its group will run alone; none has run alone yet"


async def test_only_deaths_of_commands_running_alone_count(database: Database) -> None:
    async with daemon_session(database) as session, daemon_pool(database) as pool:
        lone, other = await send(session.connection, 2, "test.noop")
        await _die(session, pool, [lone], alone=False)
        await _die(session, pool, [lone], alone=False)
        await _die(session, pool, [lone, other], alone=True)
        find = (
            "select status, crashes, lone_crashes, suspect_group is null as free,"
            " errors->-1->>'error' as error, errors->-1->>'process' as process"
            " from inboxd.commands where id = $1"
        )
        row = await session.connection.fetchrow(find, lone)
        assert row is not None
        assert tuple(row)[:4] == ("pending", 3, 0, False), "another command ran beside it"
        await _die(session, pool, [lone], alone=True)
        await _die(session, pool, [lone], alone=None)
        row = await session.connection.fetchrow(find, lone)
        assert row is not None
        assert tuple(row)[:4] == ("pending", 5, 1, False), "the last claim was not alone"
        await _die(session, pool, [lone], alone=True)
        row = await session.connection.fetchrow(find, lone)
        assert row is not None
        assert tuple(row)[:4] == ("failed", 6, 2, True)
        assert row["error"].startswith("WorkerDied")
        assert row["process"].endswith(":1"), "host and pid, since the worker's row is deleted"


@pytest.mark.parametrize(("company", "counted"), [(False, 1), (True, 0)])
async def test_death_after_other_commands_joined_counts_for_none(
    database: Database, company: bool, counted: int
) -> None:
    async with daemon_session(database) as session, daemon_pool(database) as pool:
        ids = await send(session.connection, 1, "test.noop")
        await _die(session, pool, ids, alone=False)
        await _die(session, pool, ids, alone=False)
        worker = await join(session)
        await session.connection.execute(
            "update inboxd.commands set status = 'running', worker_id = $1, fence = 9,"
            " alone_fence = 9",
            worker,
        )
        if company:
            await commands.end_alone(session, worker, ids[0], 9)
        assert await workers.declare_dead(pool, worker, 0, 9) is not None
        assert (
            await session.connection.fetchval("select lone_crashes from inboxd.commands") == counted
        )


async def test_command_that_survived_a_run_is_no_suspect(database: Database) -> None:
    async with daemon_session(database) as session, daemon_pool(database) as pool:
        retried, deferred, released, dead, unrun = ids = await send(
            session.connection, 5, "test.noop"
        )
        await _die(session, pool, ids, alone=False)
        worker = await join(session)
        await session.connection.execute(
            "update inboxd.commands set status = 'running', worker_id = $1, fence = 9", worker
        )
        requeues = [
            Requeue(retried, "pending", spent=1, delay=1.0, fence=9),
            Requeue(deferred, "pending", delay=1.0, fence=9),
            Requeue(released, "pending", fence=9),
            Requeue(dead, "failed", spent=1, fence=9),
            Requeue(unrun, "pending", delay=1.0, fence=9, unrun=True),
        ]
        assert len(await commands.requeue(session, worker, requeues)) == 5
        assert await _groups(session) == [[released, unrun]]
        rows = await session.connection.fetch("select crashes from inboxd.commands order by id")
        assert [row[0] for row in rows] == [0, 0, 1, 1, 1]


# ------------------------------------------------------------------------ gathered settlements


def _draft(n: int) -> CommandDraft:
    return CommandDraft(uuid4(), type="test.child", payload=f'{{"n": {n}}}', queue="default")


def _settler(pool: Pool, worker: UUID, outcomes: UnwrittenOutcomes) -> Settler:
    """A settler with the few parts that it uses; a refused write fails the test."""
    me, folder = SimpleNamespace(id=worker), BatchFolder(pool)
    judge = MagicMock(refused=MagicMock(side_effect=AssertionError))
    parts: Any = MagicMock(metrics=Metrics("test"), me=me, pool=pool, fleet=Fleet(), folder=folder)
    return Settler(parts, outcomes, judge, MagicMock())


async def test_only_counted_settlements_write_children(database: Database) -> None:
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        worker = await join(session)
        rows = await _claimed(session, worker, 4)
        lost = {rows[1]["id"], rows[3]["id"]}
        await session.connection.execute(
            "update inboxd.commands set fence = fence + 1 where id = any($1)", list(lost)
        )
        outcomes = UnwrittenOutcomes()
        settler = _settler(pool, worker, outcomes)
        lineage = Lineage(None, None, None)
        for row in rows:
            parent = Parent("command", row["id"], lineage)
            outcome: Settlement | Requeue = _succeeded(row)
            if row is rows[2]:
                outcome = _retry(row)
            outcomes.hand_over(EndedCommand(row, outcome, [(_draft(row["id"]), parent)]))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settler.run)
            await outcomes.flush()
            tasks.cancel_scope.cancel()
        children = await session.connection.fetch(
            "select origin_id from inboxd.commands where type = 'test.child'"
        )
        settled = await session.connection.fetch("select id from inboxd.commands_history")
    assert {row["origin_id"] for row in children} == {rows[0]["id"], rows[2]["id"]}
    assert {row["id"] for row in settled} == {rows[0]["id"]}


async def test_gathered_settlements_outlive_a_lost_connection(database: Database) -> None:
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        worker = await join(session)
        rows = await _claimed(session, worker, 2)
        outcomes = UnwrittenOutcomes()
        settler = _settler(pool, worker, outcomes)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settler.run)
            async with session.transaction():
                # The write waits for this lock; then its connection is lost.
                await session.connection.execute(
                    "lock inboxd.commands_history in access exclusive mode"
                )
                for row in rows:
                    outcomes.hand_over(EndedCommand(row, _succeeded(row)))
                await eventually(lambda: end_waiters(database))
                assert outcomes.waiting == 2
            await outcomes.flush()
            tasks.cancel_scope.cancel()
    assert await database.fetchval("select count(*) from inboxd.commands_history") == 2
