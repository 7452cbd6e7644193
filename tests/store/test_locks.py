"""Sessions that lock the same commands and batches do not deadlock, whatever they lock first.

In each test a third session holds one row until both wait: they have locked the rows before it,
each in its own way, and then go on together.
"""

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any
from uuid import UUID

import anyio
import pytest

from inboxd import operations
from inboxd.errors import Conflict
from inboxd.store import batches, commands
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue
from tests.store.members import (
    ERROR,
    NOOP,
    claim,
    counts,
    fail,
    json,
    send_workflow,
    settle,
)
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_session, join
from tests.support.verdicts import safety
from tests.support.waiting import WITHIN

pytestmark = pytest.mark.anyio

Work = Callable[[Session], Coroutine[Any, Any, object]]


async def _meet(database: Database, held: str, first: Work, second: Work) -> None:
    """Let the first session wait for a held row, then the second; then let both go on."""
    async with AsyncExitStack() as stack:
        holder, one, two = [
            await stack.enter_async_context(daemon_session(database)) for _ in range(3)
        ]
        async with anyio.create_task_group() as tasks, holder.transaction():
            await holder.connection.execute(f"select from inboxd.{held} for update")
            tasks.start_soon(first, one)
            await lock_awaited(database)
            tasks.start_soon(second, two)
            await lock_awaited(database, 2)


async def _number(session: Session, type_: str) -> int:
    found: int = await session.connection.fetchval(
        "select id from inboxd.commands where type = $1", type_
    )
    return found


async def _replay(session: Session, worker: UUID, type_: str) -> int:
    """Let a command fail and replay it: its new id is above those of commands that wait for it."""
    await fail(session, worker, await claim(session, worker, type_))
    dead = await _number(session, type_)
    done = await operations.act(session, "commands", "replay", [dead], actor="me")
    return done.new_ids[0]


def _cancelling(*ids: int) -> Work:
    """An operator cancels these commands; refused if one has ended meanwhile."""

    async def cancel(session: Session) -> None:
        with suppress(Conflict):
            await operations.act(session, "commands", "cancel", ids, actor="me")

    return cancel


def _folding(batch: int) -> Work:
    async def fold(session: Session) -> None:
        while any(each.more for each in await batches.fold(session, [batch])):
            pass

    return fold


async def _cancel_batch(session: Session, batch: int) -> None:
    """Cancel as an operator's statement does; the test folds the batch."""
    await session.execute("cancel_batch", batch)


async def _ended(database: Database) -> None:
    """Check that no command and no edge is left."""
    with safety():
        assert await database.fetch("select id, type from inboxd.commands") == []
        assert await database.fetch("select * from inboxd.dependencies") == []


async def test_a_replayed_prerequisite_is_cancelled_beside_its_workflow(database: Database) -> None:
    """The id of the replayed prerequisite is above that of the step that waits for it."""
    async with daemon_session(database) as session:
        me = await join(session)
        workflow = await send_workflow(session, [("a", None), ("b", "a")])
        again = await _replay(session, me, "test.a")
        assert again > await _number(session, "test.b")
        await _cancel_batch(session, workflow)
        await _meet(
            database, "commands where type = 'test.b'", _folding(workflow), _cancelling(again)
        )
        await _folding(workflow)(session)
        assert await counts(session, workflow) == ("cancelled", 2, 0, 0, 2, 0)
    await _ended(database)


async def test_replayed_prerequisite_and_its_dependents_are_cancelled_together(
    database: Database,
) -> None:
    async with daemon_session(database) as session:
        me = await join(session)
        await send_workflow(session, [("a", None), ("b", "a"), ("c", "b")])
        again = await _replay(session, me, "test.a")
        b = await _number(session, "test.b")
        await _meet(
            database, "commands where type = 'test.b'", _cancelling(b, again), _cancelling(again)
        )
    await _ended(database)


async def test_replayed_prerequisite_ends_beside_the_cancellation_of_its_dependents(
    database: Database,
) -> None:
    async with daemon_session(database) as session, daemon_session(database) as worker:
        me = await join(session)
        workflow = await send_workflow(session, [("a", None), ("b", "a")])
        again = await _replay(session, me, "test.a")
        running = await claim(session, me, "test.a")
        await _cancel_batch(session, workflow)
        await session.connection.execute(
            "update inboxd.commands set cancel_requested = true where id = $1", again
        )

        async def both(session: Session) -> None:
            b = await _number(session, "test.b")
            await _cancelling(b, again)(session)

        await _meet(
            database,
            "commands where type = 'test.b'",
            both,
            lambda _: settle(worker, me, running),
        )
        await _folding(workflow)(session)
        assert await counts(session, workflow) == ("cancelled", 2, 1, 0, 1, 0)


async def test_waiting_commands_are_locked_in_the_order_of_ids(database: Database) -> None:
    """Producers choose uuids, so commands are locked in the order of ids."""
    async with daemon_session(database) as session:
        me = await join(session)
        await send_workflow(session, [("a", None)])
        uuid = await session.connection.fetchval("select command_id from inboxd.commands")
        for first in "f0":
            told = {**NOOP, "command_id": f"{first * 8}-0000-4000-8000-000000000000"}
            await session.connection.execute("select inboxd.send_after($1, $2)", uuid, json(told))
        rows_ = await claim(session, me, "test.a")
        waiting = [
            row[0]
            for row in await session.connection.fetch(
                "select id from inboxd.commands where type = 'test.noop' order by id"
            )
        ]
        await _meet(
            database,
            f"commands where id = {waiting[1]}",
            lambda one: settle(one, me, rows_),
            _cancelling(*waiting),
        )
    await _ended(database)


async def test_indirect_dependents_are_locked_with_the_first_commands(database: Database) -> None:
    async with daemon_session(database) as session:
        await send_workflow(session, [("x", None), ("a", "x"), ("b", "a"), ("c", "x")])
        x, b, c = [await _number(session, f"test.{name}") for name in "xbc"]
        await _meet(database, "commands where type = 'test.c'", _cancelling(x), _cancelling(b, c))
    await _ended(database)


async def _nested(session: Session, workflow: int, after: str, before: str) -> int:
    """Add an empty batch to a workflow: it waits for the step `after`, `before` waits for it."""
    batch: int = await session.connection.fetchval(
        "insert into inboxd.batches (parent_id, needs, status, awaited, closed_at)"
        " values ($1, 1, 'waiting', true, now()) returning id",
        workflow,
    )
    await session.connection.execute(
        "with b as (select batch_id from inboxd.batches where id = $1),"
        " one as (insert into inboxd.dependencies (needs, waiting)"
        "   select c.command_id, b.batch_id from b, inboxd.commands c where c.type = $2),"
        " two as (insert into inboxd.dependencies (needs, waiting)"
        "   select b.batch_id, c.command_id from b, inboxd.commands c where c.type = $3)"
        " update inboxd.commands set needs = needs + 1 where type = $3",
        batch,
        after,
        before,
    )
    await session.connection.execute(
        "update inboxd.batches set size = size + 1 where id = $1", workflow
    )
    return batch


async def test_a_step_ends_beside_the_cancellation_of_its_workflow(database: Database) -> None:
    """A batch waits for the step: the settlement notes progress of the batch, the fold ends it."""
    async with daemon_session(database) as session, daemon_session(database) as worker:
        me = await join(session)
        workflow = await send_workflow(session, [("a", None), ("c", "a")])
        batch = await _nested(session, workflow, "test.a", "test.c")
        running = await claim(session, me, "test.a")
        await _cancel_batch(session, workflow)
        ended = anyio.Event()

        async def settled() -> None:
            await settle(worker, me, running)
            ended.set()

        async with (
            daemon_session(database) as holder,
            daemon_session(database) as folder,
            anyio.create_task_group() as tasks,
            holder.transaction(),
        ):
            await holder.connection.execute(
                "select from inboxd.batches where id = $1 for update", batch
            )
            tasks.start_soon(_folding(workflow), folder)
            await lock_awaited(database)
            # The settlement locks no batch, so it ends before the fold gets the batch.
            tasks.start_soon(settled)
            with anyio.fail_after(WITHIN):
                await ended.wait()
        for each in (batch, workflow):
            await _folding(each)(session)
        assert await counts(session, workflow) == ("cancelled", 3, 1, 0, 2, 0)
    await _ended(database)


async def test_a_batch_ends_beside_a_step_that_it_waited_for(database: Database) -> None:
    """Another step waits for both."""
    async with daemon_session(database) as session, daemon_session(database) as worker:
        me = await join(session)
        workflow = await send_workflow(session, [("a", None), ("c", "a")])
        batch = await _nested(session, workflow, "test.a", "test.c")
        running = await claim(session, me, "test.a")
        await session.connection.execute(
            "update inboxd.batches set ending = 'cancelled', needs = 0 where id = $1", batch
        )
        await _meet(
            database,
            "commands where type = 'test.c'",
            lambda _: settle(worker, me, running),
            _folding(batch),
        )
        await _folding(workflow)(session)
        assert await counts(session, workflow) == ("cancelled", 3, 1, 0, 2, 0)
    await _ended(database)


async def test_replaced_commands_are_locked_in_the_order_of_ids(database: Database) -> None:
    send = "select inboxd.send_command('test.noop', queue => 'default', unique_key => $1)"
    both = (
        "select inboxd.send_command_arrays(array['test.noop', 'test.noop'],"
        " array['{}', '{}']::jsonb[], unique_keys => array['a', 'z'],"
        " on_conflicts => array['replace', 'replace'], queues => array['default', 'default'])"
    )
    async with daemon_session(database) as session:
        for key in "za":
            await session.connection.execute(send, key)
        ids = [
            row[0]
            for row in await session.connection.fetch("select id from inboxd.commands order by 1")
        ]
        await _meet(
            database,
            f"commands where id = {ids[1]}",
            lambda one: one.connection.execute(both),
            _cancelling(*ids),
        )
        left = await session.connection.fetch("select unique_key from inboxd.commands order by 1")
        with safety():
            assert [row[0] for row in left] == ["a", "z"]


async def test_two_dead_letters_of_a_page_release_in_one_order(
    database: Database,
) -> None:
    async with daemon_session(database) as session, daemon_session(database) as worker:
        me = await join(session)
        steps = [
            ("a", None),
            ("b", None),
            ("c", {"step": "b", "when": "failed"}),
            ("d", {"step": "a", "when": "failed"}),
        ]
        await send_workflow(session, steps)
        leased = [*await claim(session, me, "test.a"), *await claim(session, me, "test.b")]
        c, d = [await _number(session, f"test.{name}") for name in "cd"]
        dead = [Requeue(r["id"], "failed", 1, error=ERROR, fence=r["fence"]) for r in leased]

        async def fails(_: Session) -> None:
            async with worker.transaction():
                assert len(await commands.end(worker, me, [], dead)) == 2

        await _meet(database, "commands where type = 'test.d'", fails, _cancelling(c, d))
        left = await session.connection.fetch("select type from inboxd.commands order by 1")
        with safety():
            assert [row[0] for row in left] == ["test.a", "test.b"]


async def test_replay_locks_waiting_commands_before_it_changes_edges(database: Database) -> None:
    """A release does the same: only a session that has locked a command changes its edges."""
    async with daemon_session(database) as session:
        me = await join(session)
        await send_workflow(
            session, [("x", None), ("y", None), ("b", ["x", "y"]), ("c", ["x", "y"])]
        )
        await fail(session, me, await claim(session, me, "test.y"))
        x, y = [await _number(session, f"test.{name}") for name in "xy"]

        async def replay(one: Session) -> None:
            await operations.act(one, "commands", "replay", [y], actor="me")

        await _meet(database, "commands where type = 'test.b'", replay, _cancelling(x))
        left = await session.connection.fetch("select type, status from inboxd.commands")
        with safety():
            assert [tuple(row) for row in left] == [("test.y", "pending")]
        await _cancelling(await _number(session, "test.y"))(session)
    await _ended(database)
