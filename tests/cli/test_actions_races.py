"""Concurrent actions on a row, or an action and a settlement: one of them is refused."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from inboxd import operations
from inboxd.errors import Conflict
from inboxd.store import operations as store
from inboxd.store.session import Session
from tests.cli.dead_letters import Sql, audited, dead, insert, operator, run, statuses
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.verdicts import safety


async def _both(database: Database, *acts: Callable[[Session], Awaitable[Any]]) -> list[Any]:
    """Start the acts while the row is locked, so that all wait for it; returns their results."""
    ended: list[Any] = []

    async def one(act: Callable[[Session], Awaitable[Any]]) -> None:
        try:
            ended.append(await operator(database, act))
        except Conflict as error:
            ended.append(error)

    async with database.connect() as lock, anyio.create_task_group() as group:
        held = lock.transaction()
        await held.start()
        await lock.execute("SELECT FROM inboxd.commands FOR UPDATE")
        for act in acts:
            group.start_soon(one, act)
        await lock_awaited(database, len(acts))
        await held.commit()
    return ended


def _replay(id_: int) -> Callable[[Session], Awaitable[Any]]:
    return lambda session: operations.act(session, "commands", "replay", [id_], actor="me")


def _dismiss(id_: int) -> Callable[[Session], Awaitable[Any]]:
    return lambda session: operations.act(session, "commands", "dismiss", [id_], actor="you")


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("other", [_replay, _dismiss])
def test_one_of_two_concurrent_actions_on_a_dead_letter_is_refused(
    database: Database, sql: Sql, other: Any, key: str | None
) -> None:
    id_ = dead(sql, "commands", ordering_key=key)
    ended = anyio.run(_both, database, _replay(id_), other(id_))
    assert sorted(isinstance(each, Conflict) for each in ended) == [False, True]
    assert len(audited(sql)) == 1
    replays = sql("SELECT * FROM inboxd.replays")
    if audited(sql)[0][0] == "dismiss":
        assert statuses(sql) == {id_: "dismissed"}
        assert replays == []
    else:
        assert len(replays) == 1
        assert len(sql("SELECT * FROM inboxd.commands")) == 1


@pytest.mark.parametrize(
    ("table", "call", "left"),
    [
        ("commands", "replay_commands(ARRAY[{id}::bigint], 'me', NULL)", 1),
        ("commands", "put_away(ARRAY[{id}::bigint], 'dismissed')", 0),
        ("events", "dismiss_events(ARRAY[{id}::bigint])", 0),
    ],
)
def test_one_of_two_concurrent_calls_by_sql_changes_the_row(
    database: Database, sql: Sql, table: str, call: str, left: int
) -> None:
    """An operator's login may call these functions itself, without a lock on the rows."""
    statement = f"SELECT * FROM inboxd.{call.format(id=dead(sql, table))}"
    found: list[int] = []

    async def one() -> None:
        async with database.connect() as connection:
            await connection.execute("SET ROLE inboxd_operator")
            found.append(len(await connection.fetch(statement)))

    async def race() -> None:
        async with database.connect() as lock, anyio.create_task_group() as group:
            held = lock.transaction()
            await held.start()
            await lock.execute(f"SELECT FROM inboxd.{table} FOR UPDATE")
            group.start_soon(one)
            group.start_soon(one)
            await lock_awaited(database, 2)
            await held.commit()

    anyio.run(race)
    with safety():
        assert sorted(found) == [0, 1]
        assert len(sql(f"SELECT FROM inboxd.{table}")) == left
        assert len(sql(f"SELECT FROM inboxd.{table}_history")) == 1


def test_cancel_during_a_settlement_is_refused(database: Database, sql: Sql) -> None:
    """The row is running when cancel reads it first, and succeeded when cancel has its lock."""
    id_ = insert(sql, "commands")
    run(sql, id_)

    async def cancel(refused: list[str]) -> None:
        try:
            await operator(
                database, lambda s: operations.act(s, "commands", "cancel", [id_], actor="me")
            )
        except Conflict as error:
            refused.append(str(error))

    async def race() -> list[str]:
        refused: list[str] = []
        async with database.connect() as worker, anyio.create_task_group() as group:
            settle = worker.transaction()
            await settle.start()
            await worker.execute(
                "select inboxd.settle_command($1, 1, $2, 0.1)", id_, uuid.UUID(int=1)
            )
            group.start_soon(cancel, refused)
            await lock_awaited(database)
            await settle.commit()
        return refused

    (said,) = anyio.run(race)
    assert f"{id_} is succeeded" in said
    assert audited(sql) == []


def test_edge_added_during_a_replay_follows_the_new_row(database: Database, sql: Sql) -> None:
    """The adder of an edge locks the row first; the replay sees the edge once it has the lock."""
    id_ = dead(sql, "commands")
    key = sql("SELECT command_id FROM inboxd.commands")[0][0]
    waiting = uuid.uuid4()

    async def race() -> None:
        async with database.connect() as adder, anyio.create_task_group() as group:
            add = adder.transaction()
            await add.start()
            await adder.execute("UPDATE inboxd.commands SET awaited = true WHERE id = $1", id_)
            group.start_soon(operator, database, _replay(id_))
            await lock_awaited(database)
            await adder.execute(
                "INSERT INTO inboxd.dependencies (needs, waiting) VALUES ($1, $2)", key, waiting
            )
            await add.commit()

    anyio.run(race)
    (new,) = sql("SELECT command_id, awaited FROM inboxd.commands WHERE replay_of = $1", id_)
    assert new["awaited"]
    assert [tuple(e) for e in sql("SELECT needs, waiting FROM inboxd.dependencies")] == [
        (new["command_id"], waiting)
    ]


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize("status", ["pending", "waiting", "running"])
def test_statements_change_only_dead_letters(
    database: Database, sql: Sql, table: Any, status: str
) -> None:
    """Promise 8 holds for the statements, not only for the code that calls them."""
    id_ = insert(sql, table)
    if status == "running" and table == "commands":
        run(sql, id_)
    elif status == "waiting":
        sql(f"UPDATE inboxd.{table} SET status = 'waiting' WHERE id = $1", id_)
    before = statuses(sql, table)

    async def act(session: Session) -> None:
        assert not await store.replay_in_place(session, table, [id_], "me", None)
        assert not await store.dismiss(session, table, [id_])
        if table == "commands":
            assert not await store.replay_as_new(session, [id_], "me", None)

    anyio.run(operator, database, act)
    assert statuses(sql, table) == before
