"""Claims, heartbeats and deaths in two sessions at once: a dead worker gets nothing."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from uuid import UUID

import anyio
import pytest

from inboxd.api import messages
from inboxd.model.lane import Lane
from inboxd.store import events, workers
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from tests.store.claiming import GROUP, claim, claim_suspects, ids_of
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_pool, daemon_session, emit, join, send
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def test_a_claim_in_flight_is_a_sign_of_life(database: Database) -> None:
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        worker = await join(session)
        sent = await send(session.connection, 3, "test.noop")
        async with session.transaction():
            claimed = await claim(session, worker)
            assert await workers.declare_dead(pool, worker, 0, 3) is None
        returned = await workers.declare_dead(pool, worker, 0, 3)
    assert sorted(ids_of(claimed)) == sent
    assert returned is not None
    with safety():
        assert sorted(ids_of(returned)) == sent


async def test_a_heartbeat_in_flight_is_a_sign_of_life(database: Database) -> None:
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        worker = await join(session)
        async with session.transaction():
            await workers.beat(session, worker, 0, "running")
            assert await workers.declare_dead(pool, worker, 0, 3) is None
        assert await workers.declare_dead(pool, worker, 0, 3) is None, "its heartbeat has changed"
        assert await workers.declare_dead(pool, worker, 1, 3) == []


async def test_the_dead_neither_claim_nor_beat(database: Database) -> None:
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        worker = await join(session)
        await send(session.connection, 1, "test.noop")
        assert await workers.declare_dead(pool, worker, 0, 3) == []
        assert await claim(session, worker) == []
        assert await claim_suspects(session, worker) == []
        assert await workers.beat(session, worker, 0, "running") is None


async def _a_claim(session: Session, worker: UUID) -> object:
    return await claim(session, worker) or None


async def _a_claim_of_a_suspect(session: Session, worker: UUID) -> object:
    await session.connection.execute(
        "update inboxd.commands set crashes = 1, suspect_group = $1", GROUP
    )
    return await claim_suspects(session, worker) or None


async def _a_beat(session: Session, worker: UUID) -> object:
    return await workers.beat(session, worker, 1, "running")


@pytest.mark.parametrize("late", [_a_claim, _a_claim_of_a_suspect, _a_beat])
async def test_claim_that_waits_for_a_death_gets_nothing(
    database: Database, late: Callable[[Session, UUID], Awaitable[object]]
) -> None:
    """A claim or a heartbeat reaches the server while its worker is declared dead."""
    answers: list[object] = []
    async with daemon_session(database) as reaper, daemon_session(database) as stopped:
        worker = await join(reaper)
        await send(reaper.connection, 1, "test.noop")

        async def come_late() -> None:
            answers.append(await late(stopped, worker))

        async with anyio.create_task_group() as tasks, reaper.transaction():
            await reaper.fetchval("lock_worker", worker, 0)
            tasks.start_soon(come_late)
            await lock_awaited(database)
            await reaper.execute("declare_dead", worker)
            await reaper.fetch("reap_commands", worker, 3)
    with safety():
        assert answers == [None]
        assert await database.fetchval("select status from inboxd.commands") == "pending"
        assert await database.fetchval("select state from inboxd.workers") == "dead"


async def test_claim_committed_just_before_the_death_is_taken_back(
    database: Database,
) -> None:
    """The reaper's transaction began before the claim committed; a later statement sees it."""
    async with daemon_session(database) as reaper, daemon_session(database) as other:
        worker = await join(other)
        sent = await send(other.connection, 3, "test.noop")
        async with reaper.transaction():
            assert await reaper.connection.fetchval("select count(*) from inboxd.commands") == 3
            await claim(other, worker)
            assert await reaper.fetchval("lock_worker", worker, 0) == worker
            await reaper.execute("declare_dead", worker)
            returned = await reaper.fetch("reap_commands", worker, 3)
    with safety():
        assert sorted(ids_of(returned)) == sent


async def test_settlement_in_flight_is_a_sign_of_life(database: Database) -> None:
    """The reaper waits for no row while it holds others, so it cannot deadlock in any order."""
    async with (
        daemon_pool(database) as pool,
        daemon_session(database) as own,
        daemon_session(database) as other,
    ):
        worker = await join(own)
        sent = await send(own.connection, 3, "test.noop")
        await claim(own, worker)
        async with own.transaction():
            await own.connection.execute(
                "select from inboxd.commands where id = $1 for update", sent[1]
            )
            assert await workers.declare_dead(pool, worker, 0, 3) is None
        left = await other.connection.fetch("select status, crashes from inboxd.commands")
        assert [tuple(row) for row in left] == [("running", 0)] * 3
        assert await other.connection.fetchval("select state from inboxd.workers") == "running"
        returned = await workers.declare_dead(pool, worker, 0, 3)
    assert returned is not None
    with safety():
        assert sorted(ids_of(returned)) == sent


async def test_concurrent_reapers_take_commands_back_once(database: Database) -> None:
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        worker = await join(session)
        sent = await send(session.connection, 5, "test.noop")
        await claim(session, worker)
        returned: list[Sequence[messages.Row] | None] = []

        async def declare_dead() -> None:
            returned.append(await workers.declare_dead(pool, worker, 0, 3))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(declare_dead)
        buried = [sorted(ids_of(rows)) for rows in returned if rows is not None]
        crashes = await session.connection.fetch(
            "select distinct status, crashes from inboxd.commands"
        )
        with safety():
            assert buried == [sent]
            assert [tuple(row) for row in crashes] == [("pending", 1)]


def _mark(row: ClaimedEvent) -> events.Mark:
    return events.Mark(row["id"], row["crashes"], row["run_at"])


async def test_marked_event_is_not_claimed_by_others_before_it_ran(database: Database) -> None:
    """Between its two transactions a careful event is not locked, but others leave it alone."""
    lane = Lane(("default", "test.noop"))
    async with daemon_session(database) as one, daemon_session(database) as two:
        (row_id,) = await emit(one.connection, 1, "test.noop")
        async with one.transaction():
            (row,) = await events.claim(one, [lane], 1)
            await events.mark_crash(one, row_id, timedelta(seconds=60))
        async with two.transaction():
            with safety():
                assert await events.claim(two, [lane], 10) == []
        async with one.transaction():
            again = await events.claim_one(one, row_id)
            assert again is not None
            assert (again["crashes"], again["id"]) == (1, row_id)
            await events.unmark_crash(one, events.Mark(row["id"], row["crashes"], row["run_at"]))
            assert await two.connection.fetchval("select crashes from inboxd.events") == 1, (
                "kept if it dies now"
            )
        async with two.transaction():
            (free,) = await events.claim(two, [lane], 10)
            assert (free["crashes"], free["run_at"]) == (0, row["run_at"])


async def test_mark_of_another_worker_is_kept(database: Database) -> None:
    lane = Lane(("default", "test.noop"))
    async with daemon_session(database) as one:
        (row_id,) = await emit(one.connection, 1, "test.noop")
        async with one.transaction():
            (row,) = await events.claim(one, [lane], 1)
        for _ in range(2):  # one's own mark, and then another worker's
            await events.mark_crash(one, row_id, timedelta(seconds=60))
        await events.unmark_crash(one, _mark(row))
        assert await one.connection.fetchval("select crashes from inboxd.events") == 2


async def test_a_draining_worker_claims_nothing(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        await send(session.connection, 1, "test.noop")
        await workers.beat(session, worker, 0, "draining")
        assert await claim(session, worker) == []
