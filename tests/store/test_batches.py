"""Batches in the database: counts, status, and exactly one release, whatever settles together."""

import anyio
import asyncpg
import pytest

from inboxd import operations
from inboxd.store import batches, commands
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue, Settlement
from tests.store.members import (
    NOOP,
    THEN,
    claim,
    counts,
    ended_unrun,
    fail,
    fold,
    json,
    released,
    send_batch,
    send_workflow,
    settle,
)
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_session, join

pytestmark = pytest.mark.anyio


async def _open_batch(session: Session) -> Row:
    """An open batch with one continuation: id, uuid."""
    opened = await session.connection.fetchrow(
        "select * from inboxd.open_batch('big', $1)", json(THEN)
    )
    assert opened is not None
    return opened


async def test_a_batch_that_succeeds_releases_then_and_finally(database: Database) -> None:
    async with daemon_session(database) as session:
        me, batch = await join(session), await send_batch(session, 3)
        assert await released(session) == []
        rows = await claim(session, me)
        await settle(session, me, rows[:2])
        assert await fold(session, batch) == "running"
        assert await released(session) == []
        await settle(session, me, rows[2:])
        assert await fold(session, batch) == "succeeded"
        assert await released(session) == ["finally", "then"]
        assert await ended_unrun(session) == {"otherwise": "skipped"}
        assert await counts(session, batch) == ("succeeded", 3, 3, 0, 0, 0)


async def test_a_batch_that_fails_releases_otherwise_and_heals(database: Database) -> None:
    async with daemon_session(database) as session:
        me, batch = await join(session), await send_batch(session, 2)
        rows = await claim(session, me)
        await settle(session, me, rows[:1])
        await fail(session, me, rows[1:])
        assert await fold(session, batch) == "failed"
        assert await released(session) == ["finally", "otherwise"]
        await operations.act(session, "commands", "replay", [rows[1]["id"]], actor="me")
        assert await fold(session, batch) == "running"
        await settle(session, me, await claim(session, me))
        assert await fold(session, batch) == "succeeded"
        assert await released(session) == ["finally", "otherwise", "then"]
        failed_at = await session.connection.fetchval(
            "select failed_at from inboxd.batches where id = $1", batch
        )
        assert failed_at is not None


async def test_an_empty_batch_succeeds_at_once(database: Database) -> None:
    async with daemon_session(database) as session:
        batch = await send_batch(session, 0)
        assert await counts(session, batch) == ("succeeded", 0, 0, 0, 0, 0)
        assert await released(session) == ["finally", "then"]


async def test_the_last_two_members_settle_together(database: Database) -> None:
    """No session sees the other's line; the last fold counts both."""
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, batch = await join(one), await send_batch(one, 2)
        first, second = await claim(one, me)
        async with one.transaction():
            await settle(one, me, [first])
            async with two.transaction():
                await settle(two, me, [second])
            assert await fold(two, batch) == "running"
        assert await fold(one, batch) == "succeeded"
        assert await released(one) == ["finally", "then"]


@pytest.mark.parametrize("page", ["a", "b", "ab", "ac", "a-", "b-", "abc-"])
async def test_settled_members_of_one_page_count_for_their_batches(
    database: Database, page: str
) -> None:
    """Three batches of two (one member of b is cancelled), and a command (-) outside of batches."""
    async with daemon_session(database) as session:
        me = await join(session)
        a, b, c = [await send_batch(session, 2) for _ in range(3)]
        await session.connection.execute(
            "select inboxd.send_command('test.noop', queue => 'default')"
        )
        named = {a: "a", b: "b", c: "c", None: "-"}
        rows = [r for r in await claim(session, me) if named[r["batch_id"]] in page]
        cancelled = max((row["id"] for row in rows if row["batch_id"] == b), default=None)
        await session.connection.execute(
            "update inboxd.commands set cancel_requested = true where id = $1", cancelled
        )
        ended = [
            Settlement(
                row["id"],
                row["fence"],
                "cancelled" if row["id"] == cancelled else "succeeded",
                0.1,
                None,
            )
            for row in rows
        ]
        assert len(await commands.settle(session, me, ended)) == len(rows)
        for batch in (a, b, c):
            if named[batch] in page:
                await fold(session, batch)
                one = ("cancelled", 2, 1, 0, 1, 0) if batch == b else ("succeeded", 2, 2, 0, 0, 0)
                assert await counts(session, batch) == one
        assert await session.connection.fetchval("select count(*) from inboxd.batch_progress") == 0


@pytest.mark.safety
async def test_two_folds_at_once_release_once(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, batch = await join(one), await send_batch(one, 2)
        await settle(one, me, await claim(one, me))
        async with anyio.create_task_group() as tasks, one.transaction():
            assert await fold(one, batch) == "succeeded"
            tasks.start_soon(fold, two, batch)
            await lock_awaited(database)
        assert await released(one) == ["finally", "then"]
        assert await counts(one, batch) == ("succeeded", 2, 2, 0, 0, 0)


async def test_only_a_fold_by_the_folder_skips_the_wait_for_the_flush(database: Database) -> None:
    async with daemon_session(database) as session:
        batch = await send_batch(session, 1)
        for patience, flush in (("100ms", "off"), (None, "on")):
            async with session.transaction():
                await batches.fold(session, [batch], patience)
                assert await session.connection.fetchval("show synchronous_commit") == flush
        assert await session.connection.fetchval("show synchronous_commit") == "on"


async def test_batch_of_a_folder_that_died_is_folded_by_another(database: Database) -> None:
    async with daemon_session(database) as session:
        me, batch = await join(session), await send_batch(session, 1)
        await settle(session, me, await claim(session, me))
    async with daemon_session(database) as another:
        left = await another.connection.fetch("select distinct batch_id from inboxd.batch_progress")
        assert [row[0] for row in left] == [batch]
        assert await fold(another, batch) == "succeeded"


async def test_member_inherits_long_texts_of_its_batch(database: Database) -> None:
    insert = "insert into inboxd.commands (type, batch_id, {}) values ('a', $1, repeat('x', 300))"
    async with daemon_session(database) as session:
        batch = (await _open_batch(session))["id"]
        for inherited in ("tenant", "correlation_id", "traceparent"):
            await session.connection.execute(insert.format(inherited), batch)
        with pytest.raises(asyncpg.CheckViolationError):
            await session.connection.execute(insert.format("entity_id"), batch)


async def test_an_open_batch_releases_nothing_before_its_close(database: Database) -> None:
    async with daemon_session(database) as session:
        me = await join(session)
        batch, uuid = await _open_batch(session)
        for _ in range(2):
            assert (
                await session.connection.fetchval(
                    "select inboxd.add_to_batch($1, $2)", uuid, json([NOOP] * 2)
                )
                == 2
            )
            await settle(session, me, await claim(session, me))
            assert await fold(session, batch) == "running"
        assert await released(session) == []
        await session.connection.execute("select inboxd.close_batch($1)", uuid)
        assert await counts(session, batch) == ("succeeded", 4, 4, 0, 0, 0)
        assert await released(session) == ["then"]
        with pytest.raises(asyncpg.PostgresError, match="is closed: nothing can be added"):
            await session.connection.execute("select inboxd.add_to_batch($1, '[]')", uuid)


async def test_close_waits_for_a_running_addition_and_folds_do_not(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me = await join(one)
        batch, uuid = await _open_batch(one)
        async with anyio.create_task_group() as tasks, one.transaction():
            await one.connection.execute("select inboxd.add_to_batch($1, $2)", uuid, json([NOOP]))
            assert await fold(two, batch) == "pending"
            tasks.start_soon(two.connection.execute, "select inboxd.close_batch($1)", uuid)
            await lock_awaited(database)
        assert await released(one) == []
        await settle(one, me, await claim(one, me))
        assert await fold(one, batch) == "succeeded"


async def test_members_of_a_cancelled_batch_end_page_by_page(database: Database) -> None:
    async with daemon_session(database) as session:
        me, batch = await join(session), await send_batch(session, 30)
        running = await claim(session, me, most=3)
        await session.connection.execute(
            "update inboxd.batches set ending = 'cancelled' where id = $1", batch
        )
        row = await session.connection.fetchrow("select * from inboxd.fold_batch($1, 20)", batch)
        assert row is not None
        assert row["more"]
        assert await fold(session, batch) == "running"
        asked = "select count(*) from inboxd.commands where cancel_requested and status = 'running'"
        assert await session.connection.fetchval(asked) == 3
        await settle(session, me, running)
        assert await fold(session, batch) == "cancelled"
        assert await counts(session, batch) == ("cancelled", 30, 3, 0, 27, 0)
        assert await released(session) == ["finally"]


async def _cancel(session: Session, batch: int) -> None:
    await session.connection.execute(
        "update inboxd.batches set ending = 'cancelled', closed_at = now() where id = $1", batch
    )


async def test_member_released_while_its_batch_ends_is_cancelled(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, batch = await join(one), await send_batch(one, 1)
        (row,) = await claim(one, me)
        await _cancel(one, batch)
        async with anyio.create_task_group() as tasks, one.transaction():
            back = Requeue(row["id"], "pending", fence=row["fence"])
            await commands.requeue(one, me, [back])
            tasks.start_soon(fold, two, batch)  # fold calls fold_batch again while `more` is true
            await lock_awaited(database)
        assert await counts(one, batch) == ("cancelled", 1, 0, 0, 1, 0)


async def test_a_settlement_and_the_end_of_its_batch_do_not_deadlock(database: Database) -> None:
    """The settlement holds a step and takes the next; the end of the batch takes both."""
    async with (
        daemon_session(database) as one,
        daemon_session(database) as two,
        daemon_session(database) as holder,
    ):
        me = await join(one)
        batch = await send_workflow(one, [("a", None), ("b", "a")])
        rows = await claim(one, me, "test.a")
        await _cancel(one, batch)
        async with anyio.create_task_group() as tasks, holder.transaction():
            await holder.connection.execute(
                "select from inboxd.commands where type = 'test.b' for update"
            )
            tasks.start_soon(fold, two, batch)
            await lock_awaited(database)
            tasks.start_soon(settle, one, me, rows)
            await lock_awaited(database, 2)


async def test_settlement_does_not_wait_for_the_cancellation_of_a_waiting_batch(
    database: Database,
) -> None:
    async with daemon_session(database) as one, daemon_session(database) as operator:
        me = await join(one)
        await send_workflow(one, [("a", None), ("b", "a")])
        batch = (await _open_batch(one))["id"]
        await one.connection.execute(
            "insert into inboxd.dependencies select a.command_id, b.batch_id, 'succeeded' "
            "from inboxd.commands a, inboxd.batches b where a.type = 'test.a' and b.id = $1",
            batch,
        )
        await one.connection.execute(
            "update inboxd.batches set needs = 1, status = 'waiting' where id = $1", batch
        )
        rows = await claim(one, me, "test.a")
        async with operator.transaction():
            await operator.fetch("lock_batch", batch, None)
            await settle(one, me, rows)
            await operator.execute("cancel_batch", batch)
        assert await fold(one, batch) == "cancelled"
        assert await released(one) == ["a", "b"]
