"""Batches in the database: counts, status, release, exactly once, whatever settles together."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import anyio
import asyncpg
import orjson
import pytest

from inboxd import operations
from inboxd.model.lane import Lane
from inboxd.store import batches, commands
from inboxd.store.commands import Settlement
from inboxd.store.connections import Connection, Row
from inboxd.store.events import Requeue
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import SQL, daemon_session, join

pytestmark = pytest.mark.anyio

NOOP = {"type": "test.noop", "queue": "default"}
THEN, OTHERWISE, FINALLY = (
    {"type": f"test.{name}", "queue": "default"} for name in ("then", "otherwise", "finally")
)
ERROR = orjson.dumps({"attempt": 1, "error": "as told"}).decode()


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


async def _send_batch(connection: Connection, size: int, **sent: Any) -> int:
    """A batch of so many with its three continuations; its id."""
    batch: int = await connection.fetchval(
        "select id from inboxd.send_batch('emails', $1, $2, $3, $4)",
        _json([NOOP] * size),
        *(
            _json(sent.get(key, told))
            for key, told in (("then", THEN), ("otherwise", OTHERWISE), ("finally_", FINALLY))
        ),
    )
    return batch


async def _open_batch(connection: Connection) -> Row:
    """An open batch with one continuation: id, uuid."""
    opened = await connection.fetchrow("select * from inboxd.open_batch('big', $1)", _json(THEN))
    assert opened is not None
    return opened


async def _send_workflow(connection: Connection, steps: Sequence[Any]) -> int:
    """Steps as (name, after): each has a type of its name; its id."""
    given = [
        {
            "name": name,
            "type": f"test.{name}",
            "queue": "default",
            **({"after": after} if after else {}),
        }
        for name, after in steps
    ]
    workflow: int = await connection.fetchval(
        "select id from inboxd.send_workflow('seed', $1)", _json(given)
    )
    return workflow


async def _claim(
    connection: Connection, worker: UUID, type_: str = "test.noop", most: int = 1000
) -> list[ClaimedCommand]:
    lane = Lane(("default", type_, 0))
    return await commands.claim(connection, SQL, worker, {"default": most}, [lane], most)


async def _settle(connection: Connection, worker: UUID, rows: Sequence[ClaimedCommand]) -> None:
    ended = [Settlement(row["id"], row["fence"], "succeeded", 0.1, None) for row in rows]
    assert len(await commands.settle(connection, SQL, worker, ended)) == len(rows)


async def _fail(connection: Connection, worker: UUID, rows: Sequence[ClaimedCommand]) -> None:
    dead = [Requeue(row["id"], "failed", 1, error=ERROR, fence=row["fence"]) for row in rows]
    assert len(await commands.requeue(connection, SQL, worker, dead)) == len(rows)


async def _fold(connection: Connection, batch: int | None) -> str:
    """Fold as a worker does: its parent as well, and until there is no more; its own status."""
    status = ""
    while batch is not None:
        row = await connection.fetchrow("select * from inboxd.fold_batch($1)", batch)
        assert row is not None
        status = status or row["status"]
        batch = batch if row["more"] else row["parent"]
    return status


async def _released(connection: Connection) -> list[str]:
    """The continuations and steps that may run now, or did."""
    rows = await connection.fetch(
        "select type from inboxd.commands where type <> 'test.noop' and status <> 'waiting' "
        "union all select type from inboxd.commands_history "
        "where type <> 'test.noop' and status = 'succeeded' order by 1"
    )
    return [row[0].removeprefix("test.") for row in rows]


async def _ended_unrun(connection: Connection) -> dict[str, str]:
    rows = await connection.fetch(
        "select type, cancel_requested from inboxd.commands_history where status = 'cancelled'"
    )
    return {row[0].removeprefix("test."): "cancelled" if row[1] else "skipped" for row in rows}


async def _counts(connection: Connection, batch: int) -> tuple[Any, ...]:
    row = await connection.fetchrow(
        "select status, size, succeeded, failed, cancelled, skipped from inboxd.batches "
        "where id = $1",
        batch,
    )
    assert row is not None
    return tuple(row)


async def test_a_batch_that_succeeds_releases_then_and_finally(database: Database) -> None:
    async with daemon_session(database) as connection:
        me, batch = await join(connection), await _send_batch(connection, 3)
        assert await _released(connection) == []
        rows = await _claim(connection, me)
        await _settle(connection, me, rows[:2])
        assert await _fold(connection, batch) == "running"
        assert await _released(connection) == []
        await _settle(connection, me, rows[2:])
        assert await _fold(connection, batch) == "succeeded"
        assert await _released(connection) == ["finally", "then"]
        assert await _ended_unrun(connection) == {"otherwise": "skipped"}
        assert await _counts(connection, batch) == ("succeeded", 3, 3, 0, 0, 0)


async def test_a_batch_that_fails_releases_otherwise_and_heals(database: Database) -> None:
    async with daemon_session(database) as connection:
        me, batch = await join(connection), await _send_batch(connection, 2)
        rows = await _claim(connection, me)
        await _settle(connection, me, rows[:1])
        await _fail(connection, me, rows[1:])
        assert await _fold(connection, batch) == "failed"
        assert await _released(connection) == ["finally", "otherwise"]
        session = Session(connection, SQL)
        await operations.act(session, "commands", "replay", [rows[1]["id"]], actor="me")
        assert await _fold(connection, batch) == "running"
        await _settle(connection, me, await _claim(connection, me))
        assert await _fold(connection, batch) == "succeeded"
        assert await _released(connection) == ["finally", "otherwise", "then"]
        failed_at = await connection.fetchval(
            "select failed_at from inboxd.batches where id = $1", batch
        )
        assert failed_at is not None


async def test_an_empty_batch_succeeds_at_once(database: Database) -> None:
    async with daemon_session(database) as connection:
        batch = await _send_batch(connection, 0)
        assert await _counts(connection, batch) == ("succeeded", 0, 0, 0, 0, 0)
        assert await _released(connection) == ["finally", "then"]


async def test_the_last_two_members_settle_together(database: Database) -> None:
    """Neither sees the other's line; whoever folds last counts both."""
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, batch = await join(one), await _send_batch(one, 2)
        first, second = await _claim(one, me)
        async with one.transaction():
            await _settle(one, me, [first])
            async with two.transaction():
                await _settle(two, me, [second])
            assert await _fold(two, batch) == "running"
        assert await _fold(one, batch) == "succeeded"
        assert await _released(one) == ["finally", "then"]


@pytest.mark.parametrize("page", ["a", "b", "ab", "ac", "a-", "b-", "abc-"])
async def test_what_settles_in_one_page_is_counted_for_its_batch(
    database: Database, page: str
) -> None:
    """Three batches of two, one of b cancelled, and a command (-) that is of no batch."""
    async with daemon_session(database) as connection:
        me = await join(connection)
        a, b, c = [await _send_batch(connection, 2) for _ in range(3)]
        await connection.execute("select inboxd.send_command('test.noop', queue => 'default')")
        named = {a: "a", b: "b", c: "c", None: "-"}
        rows = [r for r in await _claim(connection, me) if named[r["batch_id"]] in page]
        cancelled = max((row["id"] for row in rows if row["batch_id"] == b), default=None)
        await connection.execute(
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
        assert len(await commands.settle(connection, SQL, me, ended)) == len(rows)
        for batch in (a, b, c):
            if named[batch] in page:
                await _fold(connection, batch)
                one = ("cancelled", 2, 1, 0, 1, 0) if batch == b else ("succeeded", 2, 2, 0, 0, 0)
                assert await _counts(connection, batch) == one
        assert await connection.fetchval("select count(*) from inboxd.batch_progress") == 0


async def test_two_folds_at_once_release_once(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, batch = await join(one), await _send_batch(one, 2)
        await _settle(one, me, await _claim(one, me))
        async with anyio.create_task_group() as tasks, one.transaction():
            assert await _fold(one, batch) == "succeeded"
            tasks.start_soon(_fold, two, batch)
            await lock_awaited(database)
        assert await _released(one) == ["finally", "then"]
        assert await _counts(one, batch) == ("succeeded", 2, 2, 0, 0, 0)


async def test_only_a_folder_does_not_wait_for_the_flush(database: Database) -> None:
    async with daemon_session(database) as session:
        batch = await _send_batch(session, 1)
        for patience, flush in (("100ms", "off"), (None, "on")):
            async with session.transaction():
                await batches.fold(session, SQL, [batch], patience)
                assert await session.fetchval("show synchronous_commit") == flush
        assert await session.fetchval("show synchronous_commit") == "on"


async def test_a_folder_that_died_after_the_append_is_made_up_for(database: Database) -> None:
    async with daemon_session(database) as connection:
        me, batch = await join(connection), await _send_batch(connection, 1)
        await _settle(connection, me, await _claim(connection, me))
    async with daemon_session(database) as another:
        left = await another.fetch("select distinct batch_id from inboxd.batch_progress")
        assert [row[0] for row in left] == [batch]
        assert await _fold(another, batch) == "succeeded"


async def test_a_member_inherits_what_its_batch_had_before_the_bounds(database: Database) -> None:
    insert = "insert into inboxd.commands (type, batch_id, {}) values ('a', $1, repeat('x', 300))"
    async with database.connect() as connection:
        batch = (await _open_batch(connection))["id"]
        for inherited in ("tenant", "correlation_id", "traceparent"):
            await connection.execute(insert.format(inherited), batch)
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute(insert.format("entity_id"), batch)


async def test_an_open_batch_releases_nothing_before_its_close(database: Database) -> None:
    async with daemon_session(database) as connection:
        me = await join(connection)
        batch, uuid = await _open_batch(connection)
        for _ in range(2):
            assert (
                await connection.fetchval(
                    "select inboxd.add_to_batch($1, $2)", uuid, _json([NOOP] * 2)
                )
                == 2
            )
            await _settle(connection, me, await _claim(connection, me))
            assert await _fold(connection, batch) == "running"
        assert await _released(connection) == []
        await connection.execute("select inboxd.close_batch($1)", uuid)
        assert await _counts(connection, batch) == ("succeeded", 4, 4, 0, 0, 0)
        assert await _released(connection) == ["then"]
        with pytest.raises(asyncpg.PostgresError, match="is closed: nothing can be added"):
            await connection.execute("select inboxd.add_to_batch($1, '[]')", uuid)


async def test_a_close_waits_for_who_is_adding_and_folds_do_not(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me = await join(one)
        batch, uuid = await _open_batch(one)
        async with anyio.create_task_group() as tasks, one.transaction():
            await one.execute("select inboxd.add_to_batch($1, $2)", uuid, _json([NOOP]))
            assert await _fold(two, batch) == "pending"
            tasks.start_soon(two.execute, "select inboxd.close_batch($1)", uuid)
            await lock_awaited(database)
        assert await _released(one) == []
        await _settle(one, me, await _claim(one, me))
        assert await _fold(one, batch) == "succeeded"


async def test_a_graph_is_released_step_by_step(database: Database) -> None:
    async with daemon_session(database) as connection:
        me = await join(connection)
        steps = [
            ("a", None),
            ("b", "a"),
            ("c", ["a"]),
            ("d", ["b", {"step": "c", "when": "finished"}]),
        ]
        workflow = await _send_workflow(connection, steps)
        for ran in ("a", "b"):
            assert not await _claim(connection, me, "test.d")
            await _settle(connection, me, await _claim(connection, me, f"test.{ran}"))
        await _fail(connection, me, await _claim(connection, me, "test.c"))
        await _settle(connection, me, await _claim(connection, me, "test.d"))
        assert await _fold(connection, workflow) == "failed"
        assert await _counts(connection, workflow) == ("failed", 4, 3, 1, 0, 0)


async def test_what_is_not_needed_is_skipped_and_the_workflow_succeeds(database: Database) -> None:
    async with daemon_session(database) as connection:
        me = await join(connection)
        steps = [
            ("a", None),
            ("undo", {"step": "a", "when": "failed"}),
            ("tell", "undo"),
            ("b", "a"),
        ]
        workflow = await _send_workflow(connection, steps)
        await _settle(connection, me, await _claim(connection, me, "test.a"))
        await _settle(connection, me, await _claim(connection, me, "test.b"))
        assert await _ended_unrun(connection) == {"undo": "skipped", "tell": "skipped"}
        assert await _fold(connection, workflow) == "succeeded"
        assert await _counts(connection, workflow) == ("succeeded", 4, 2, 0, 0, 2)


async def test_what_waits_for_a_cancelled_step_is_cancelled_however_deep(
    database: Database,
) -> None:
    async with daemon_session(database) as connection:
        steps = [("s0", None), *((f"s{n}", f"s{n - 1}") for n in range(1, 500))]
        workflow = await _send_workflow(connection, steps)
        first = await connection.fetchval("select id from inboxd.commands where status = 'pending'")
        await connection.fetch(SQL["cancel_commands"], [first])
        assert set((await _ended_unrun(connection)).values()) == {"cancelled"}
        assert await _fold(connection, workflow) == "cancelled"
        assert await _counts(connection, workflow) == ("cancelled", 500, 0, 0, 500, 0)
        assert await connection.fetchval("select count(*) from inboxd.dependencies") == 0


async def test_two_prerequisites_that_settle_together_release_once(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me = await join(one)
        await _send_workflow(one, [("a", None), ("b", None), ("c", ["a", "b"])])
        a, b = await _claim(one, me, "test.a"), await _claim(one, me, "test.b")
        async with anyio.create_task_group() as tasks, one.transaction():
            await _settle(one, me, a)
            tasks.start_soon(_settle, two, me, b)
            await lock_awaited(database)
        assert await _released(one) == ["a", "b", "c"]
        assert await one.fetchval("select needs from inboxd.commands where type = 'test.c'") == 0


async def test_a_batch_is_ended_as_a_whole_page_by_page(database: Database) -> None:
    async with daemon_session(database) as connection:
        me, batch = await join(connection), await _send_batch(connection, 30)
        running = await _claim(connection, me, most=3)
        await connection.execute(
            "update inboxd.batches set ending = 'cancelled' where id = $1", batch
        )
        row = await connection.fetchrow("select * from inboxd.fold_batch($1, 20)", batch)
        assert row is not None
        assert row["more"]
        assert await _fold(connection, batch) == "running"
        asked = "select count(*) from inboxd.commands where cancel_requested and status = 'running'"
        assert await connection.fetchval(asked) == 3
        await _settle(connection, me, running)
        assert await _fold(connection, batch) == "cancelled"
        assert await _counts(connection, batch) == ("cancelled", 30, 3, 0, 27, 0)
        assert await _released(connection) == ["finally"]


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
async def test_a_wrong_graph_is_refused(database: Database, steps: list[Any], message: str) -> None:
    async with daemon_session(database) as connection:
        with pytest.raises(asyncpg.PostgresError, match=message):
            await _send_workflow(connection, steps)
        assert await connection.fetchval("select count(*) from inboxd.commands") == 0


async def test_a_condition_that_cannot_come_is_refused(database: Database) -> None:
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
    async with daemon_session(database) as connection:
        for message, given in wrong.items():
            with pytest.raises(asyncpg.InvalidParameterValueError, match=message):
                await connection.execute(send, given)
        await connection.execute(send, steps("a", {"step": "a", "when": "finished"}))


async def _prerequisite(connection: Connection) -> UUID:
    """A command that others may wait for."""
    found: UUID = await connection.fetchval(
        "select new_command_id from inboxd.send_command('test.noop', queue => 'default')"
    )
    return found


_AFTER = "select inboxd.send_after($1, $2, $3)"


async def test_a_settlement_waits_for_who_adds_a_dependency_and_releases_it(
    database: Database,
) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, uuid = await join(one), await _prerequisite(one)
        rows = await _claim(one, me)
        async with anyio.create_task_group() as tasks, two.transaction():
            await two.execute(_AFTER, uuid, _json(THEN), "succeeded")
            tasks.start_soon(_settle, one, me, rows)
            await lock_awaited(database)
        assert await _released(one) == ["then"]


async def test_a_dependency_on_what_settles_meanwhile_is_met(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, uuid = await join(one), await _prerequisite(one)
        rows = await _claim(one, me)
        async with anyio.create_task_group() as tasks, one.transaction():
            await _settle(one, me, rows)
            tasks.start_soon(two.execute, _AFTER, uuid, _json(THEN), "succeeded")
            await lock_awaited(database)
        assert await _released(one) == ["then"]
        assert await one.fetchval("select count(*) from inboxd.dependencies") == 0


async def test_a_dependency_on_a_batch_that_is_folded_meanwhile_is_met(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, batch = await join(one), await _send_batch(one, 1, then=[], otherwise=[], finally_=[])
        uuid = await one.fetchval("select batch_id from inboxd.batches where id = $1", batch)
        await _settle(one, me, await _claim(one, me))
        async with anyio.create_task_group() as tasks, one.transaction():
            assert await _fold(one, batch) == "succeeded"
            tasks.start_soon(two.execute, _AFTER, uuid, _json(THEN), "succeeded")
            await lock_awaited(database)
        assert await _released(one) == ["then"]


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
async def test_what_could_never_run_is_refused(
    database: Database, how: str, condition: str, message: str
) -> None:
    async with daemon_session(database) as connection:
        me, uuid = await join(connection), await _prerequisite(connection)
        if how == "settle":
            await _settle(connection, me, await _claim(connection, me))
        elif how == "cancel":
            ids = [row[0] for row in await connection.fetch("select id from inboxd.commands")]
            await connection.fetch(SQL["cancel_commands"], ids)
        else:
            uuid = uuid4()
        with pytest.raises(asyncpg.PostgresError, match=message):
            await connection.execute(_AFTER, uuid, _json(THEN), condition)
        assert await _released(connection) == []


async def test_a_dead_letter_may_be_waited_for(database: Database) -> None:
    async with daemon_session(database) as connection:
        me, uuid = await join(connection), await _prerequisite(connection)
        rows = await _claim(connection, me)
        await _fail(connection, me, rows)
        await connection.execute(_AFTER, uuid, _json(OTHERWISE), "failed")
        await connection.execute(_AFTER, uuid, _json(THEN), "succeeded")
        assert await _released(connection) == ["otherwise"]
        await connection.fetch(
            "update inboxd.commands set status = 'pending' where id = $1", rows[0]["id"]
        )
        await _settle(connection, me, await _claim(connection, me))
        assert await _released(connection) == ["otherwise", "then"]


async def test_a_worker_of_the_version_before_releases_what_it_does_not_know_of(
    database: Database,
) -> None:
    """A rolling deploy: its settlement says nothing of what waits."""
    async with daemon_session(database) as connection:
        me = await join(connection)
        await _send_workflow(connection, [("a", None), ("b", "a")])
        (row,) = await _claim(connection, me, "test.a")
        older = SQL["settle_commands"].replace(", awaited", "")
        given: tuple[object, ...] = [row["id"]], [row["fence"]], ["succeeded"], [0.1], []
        assert await connection.fetch(older, *given, me)
        assert len(await _claim(connection, me, "test.b")) == 1


async def _cancel(connection: Connection, batch: int) -> None:
    await connection.execute(
        "update inboxd.batches set ending = 'cancelled', closed_at = now() where id = $1", batch
    )


async def test_what_is_given_back_while_its_batch_is_ended_is_ended(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        me, batch = await join(one), await _send_batch(one, 1)
        (row,) = await _claim(one, me)
        await _cancel(one, batch)
        async with anyio.create_task_group() as tasks, one.transaction():
            back = Requeue(row["id"], "pending", fence=row["fence"])
            await commands.requeue(one, SQL, me, [back])
            tasks.start_soon(_fold, two, batch)  # as long as there is more
            await lock_awaited(database)
        assert await _counts(one, batch) == ("cancelled", 1, 0, 0, 1, 0)


async def test_a_settlement_and_the_end_of_its_batch_do_not_deadlock(database: Database) -> None:
    """The one holds a step and takes the next, the other ends both."""
    async with (
        daemon_session(database) as one,
        daemon_session(database) as two,
        daemon_session(database) as holder,
    ):
        me = await join(one)
        batch = await _send_workflow(one, [("a", None), ("b", "a")])
        rows = await _claim(one, me, "test.a")
        await _cancel(one, batch)
        async with anyio.create_task_group() as tasks, holder.transaction():
            await holder.execute("select from inboxd.commands where type = 'test.b' for update")
            tasks.start_soon(_fold, two, batch)
            await lock_awaited(database)
            tasks.start_soon(_settle, one, me, rows)
            await lock_awaited(database, 2)


async def test_a_release_and_the_cancellation_of_what_waits_do_not_deadlock(
    database: Database,
) -> None:
    async with daemon_session(database) as one, daemon_session(database) as operator:
        me = await join(one)
        await _send_workflow(one, [("a", None), ("b", "a")])
        batch = (await _open_batch(one))["id"]
        await one.execute(
            "insert into inboxd.dependencies select a.command_id, b.batch_id, 'succeeded' "
            "from inboxd.commands a, inboxd.batches b where a.type = 'test.a' and b.id = $1",
            batch,
        )
        await one.execute(
            "update inboxd.batches set needs = 1, status = 'waiting' where id = $1", batch
        )
        rows = await _claim(one, me, "test.a")
        async with anyio.create_task_group() as tasks, operator.transaction():
            await operator.fetch(SQL["lock_batch"], batch, None)
            tasks.start_soon(_settle, one, me, rows)
            await lock_awaited(database)
            await operator.execute(SQL["cancel_batch"], batch)
        assert await _fold(one, batch) == "cancelled"
