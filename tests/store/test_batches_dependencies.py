"""Dependencies: graphs of steps, and edges that are added while their prerequisites settle."""

from typing import Any
from uuid import UUID, uuid4

import anyio
import asyncpg
import orjson
import pytest

from inboxd.store.session import Session
from tests.store.members import (
    OTHERWISE,
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
from tests.support.rows import SQL, daemon_session, join

pytestmark = pytest.mark.anyio


async def test_a_graph_is_released_step_by_step(database: Database) -> None:
    async with daemon_session(database) as session:
        me = await join(session)
        steps = [
            ("a", None),
            ("b", "a"),
            ("c", ["a"]),
            ("d", ["b", {"step": "c", "when": "finished"}]),
        ]
        workflow = await send_workflow(session, steps)
        for ran in ("a", "b"):
            assert not await claim(session, me, "test.d")
            await settle(session, me, await claim(session, me, f"test.{ran}"))
        await fail(session, me, await claim(session, me, "test.c"))
        await settle(session, me, await claim(session, me, "test.d"))
        assert await fold(session, workflow) == "failed"
        assert await counts(session, workflow) == ("failed", 4, 3, 1, 0, 0)


async def test_unneeded_steps_are_skipped_and_the_workflow_succeeds(database: Database) -> None:
    async with daemon_session(database) as session:
        me = await join(session)
        steps = [
            ("a", None),
            ("undo", {"step": "a", "when": "failed"}),
            ("tell", "undo"),
            ("b", "a"),
        ]
        workflow = await send_workflow(session, steps)
        await settle(session, me, await claim(session, me, "test.a"))
        await settle(session, me, await claim(session, me, "test.b"))
        assert await ended_unrun(session) == {"undo": "skipped", "tell": "skipped"}
        assert await fold(session, workflow) == "succeeded"
        assert await counts(session, workflow) == ("succeeded", 4, 2, 0, 0, 2)


async def test_steps_behind_a_cancelled_step_are_cancelled_at_any_depth(
    database: Database,
) -> None:
    async with daemon_session(database) as session:
        steps = [("s0", None), *((f"s{n}", f"s{n - 1}") for n in range(1, 500))]
        workflow = await send_workflow(session, steps)
        first = await session.connection.fetchval(
            "select id from inboxd.commands where status = 'pending'"
        )
        await session.fetch("cancel_commands", [first])
        assert set((await ended_unrun(session)).values()) == {"cancelled"}
        assert await fold(session, workflow) == "cancelled"
        assert await counts(session, workflow) == ("cancelled", 500, 0, 0, 500, 0)
        assert await session.connection.fetchval("select count(*) from inboxd.dependencies") == 0


@pytest.mark.safety
async def test_two_prerequisites_that_settle_together_release_once(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me = await join(one)
        await send_workflow(one, [("a", None), ("b", None), ("c", ["a", "b"])])
        a, b = await claim(one, me, "test.a"), await claim(one, me, "test.b")
        async with anyio.create_task_group() as tasks, one.transaction():
            await settle(one, me, a)
            tasks.start_soon(settle, two, me, b)
            await lock_awaited(database)
        assert await released(one) == ["a", "b", "c"]
        assert (
            await one.connection.fetchval("select needs from inboxd.commands where type = 'test.c'")
            == 0
        )


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("a", "b"), ("b", "a")], "'a' waits for 'b', which is not listed before it: a cycle"),
        ([("a", "a")], "'a' waits for 'a', which is not listed before it"),
        ([("a", "x")], "'a' waits for 'x', which is no step of it"),
        ([("a", None), ("a", None)], "2 steps have the name 'a'"),
        ([("", None)], "1 steps have the name ''"),
    ],
)
async def test_invalid_graph_is_refused(database: Database, steps: list[Any], message: str) -> None:
    async with daemon_session(database) as session:
        with pytest.raises(asyncpg.PostgresError, match=message):
            await send_workflow(session, steps)
        assert await session.connection.fetchval("select count(*) from inboxd.commands") == 0


async def test_unknown_or_contradicting_conditions_are_refused(database: Database) -> None:
    noop = {"type": "test.noop", "queue": "default"}

    def steps(*after: Any) -> str:
        return orjson.dumps([{"name": "a", **noop}, {"name": "b", "after": after, **noop}]).decode()

    wrong = {
        "'b' waits for 'a' to have banana": steps({"step": "a", "when": "banana"}),
        "'b' waits for 'a' to have failed and succeeded": steps(
            "a", {"step": "a", "when": "failed"}
        ),
    }
    send = "select inboxd.send_workflow('seed', $1)"
    async with daemon_session(database) as session:
        for message, given in wrong.items():
            with pytest.raises(asyncpg.InvalidParameterValueError, match=message):
                await session.connection.execute(send, given)
        await session.connection.execute(send, steps("a", {"step": "a", "when": "finished"}))


async def _prerequisite(session: Session) -> UUID:
    """Send a command that others may wait for; returns its uuid."""
    found: UUID = await session.connection.fetchval(
        "select new_command_id from inboxd.send_command('test.noop', queue => 'default')"
    )
    return found


_AFTER = "select inboxd.send_after($1, $2, $3)"


async def test_settlement_waits_for_a_new_dependency_and_releases_it(
    database: Database,
) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, uuid = await join(one), await _prerequisite(one)
        rows = await claim(one, me)
        async with anyio.create_task_group() as tasks, two.transaction():
            await two.connection.execute(_AFTER, uuid, json(THEN), "succeeded")
            tasks.start_soon(settle, one, me, rows)
            await lock_awaited(database)
        assert await released(one) == ["then"]


async def test_dependency_on_a_command_that_settles_meanwhile_is_met(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, uuid = await join(one), await _prerequisite(one)
        rows = await claim(one, me)
        async with anyio.create_task_group() as tasks, one.transaction():
            await settle(one, me, rows)
            tasks.start_soon(two.connection.execute, _AFTER, uuid, json(THEN), "succeeded")
            await lock_awaited(database)
        assert await released(one) == ["then"]
        assert await one.connection.fetchval("select count(*) from inboxd.dependencies") == 0


async def test_a_dependency_on_a_batch_that_is_folded_meanwhile_is_met(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, batch = await join(one), await send_batch(one, 1, then=[], otherwise=[], finally_=[])
        uuid = await one.connection.fetchval(
            "select batch_id from inboxd.batches where id = $1", batch
        )
        await settle(one, me, await claim(one, me))
        async with anyio.create_task_group() as tasks, one.transaction():
            assert await fold(one, batch) == "succeeded"
            tasks.start_soon(two.connection.execute, _AFTER, uuid, json(THEN), "succeeded")
            await lock_awaited(database)
        assert await released(one) == ["then"]


@pytest.mark.parametrize(
    ("how", "condition", "message"),
    [
        ("settle", "failed", "has ended .succeeded.: what waits for «failed» would never run"),
        (
            "cancel",
            "succeeded",
            "has ended .cancelled.: what waits for «succeeded» would never run",
        ),
        ("settle", "soon", "condition 'soon' is none of succeeded, failed, finished"),
        ("unknown", "succeeded", "there is no command or batch"),
    ],
)
async def test_command_that_could_never_run_is_refused(
    database: Database, how: str, condition: str, message: str
) -> None:
    async with daemon_session(database) as session:
        me, uuid = await join(session), await _prerequisite(session)
        if how == "settle":
            await settle(session, me, await claim(session, me))
        elif how == "cancel":
            ids = [
                row[0] for row in await session.connection.fetch("select id from inboxd.commands")
            ]
            await session.fetch("cancel_commands", ids)
        else:
            uuid = uuid4()
        with pytest.raises(asyncpg.PostgresError, match=message):
            await session.connection.execute(_AFTER, uuid, json(THEN), condition)
        assert await released(session) == []


async def test_commands_may_wait_for_a_dead_letter(database: Database) -> None:
    async with daemon_session(database) as session:
        me, uuid = await join(session), await _prerequisite(session)
        rows = await claim(session, me)
        await fail(session, me, rows)
        await session.connection.execute(_AFTER, uuid, json(OTHERWISE), "failed")
        await session.connection.execute(_AFTER, uuid, json(THEN), "succeeded")
        assert await released(session) == ["otherwise"]
        await session.connection.fetch(
            "update inboxd.commands set status = 'pending' where id = $1", rows[0]["id"]
        )
        await settle(session, me, await claim(session, me))
        assert await released(session) == ["otherwise", "then"]


async def test_older_worker_releases_waiting_commands(
    database: Database,
) -> None:
    """A rolling deploy: the older settlement does not return `awaited`."""
    async with daemon_session(database) as session:
        me = await join(session)
        await send_workflow(session, [("a", None), ("b", "a")])
        (row,) = await claim(session, me, "test.a")
        older = SQL["settle_commands"].replace(", awaited", "")
        given: tuple[object, ...] = [row["id"]], [row["fence"]], ["succeeded"], [0.1], []
        assert await session.connection.fetch(older, *given, me)
        assert len(await claim(session, me, "test.b")) == 1
