"""At most one unsettled command of a type has a unique key: kept, replaced or rejected."""

import json
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest

from inboxd.api.drafts import CommandDraft
from inboxd.client import Inbox, NewCommand
from inboxd.errors import UniqueKeyTaken, UsageError
from inboxd.model.lineage import Lineage
from inboxd.store import commands
from inboxd.store.settlements import Parent
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import SQL, daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio
CALL = "select * from inboxd.send_command('t', queue => 'q', unique_key => 'u', on_conflict => $1)"


async def _unsettled(database: Database) -> list[int]:
    return [row[0] for row in await database.fetch("select id from inboxd.commands order by id")]


@pytest.mark.parametrize("conflict", ["keep", "replace"])
async def test_fifty_senders_leave_one(database: Database, conflict: str) -> None:
    receipts: list[asyncpg.Record] = []

    async def send() -> None:
        receipts.append((await database.fetch(CALL, conflict))[0])

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(send)
    left = await _unsettled(database)
    new = [row for row in receipts if not row["duplicate"]]
    with safety():
        assert len(left) == 1
        if conflict == "keep":
            assert len(new) == 1
            assert {row["id"] for row in receipts} == set(left)
            assert {row["new_command_id"] for row in receipts} == {new[0]["new_command_id"]}
        else:
            assert len(new) == 50
            ends = "select count(*) from inboxd.commands_history where status = 'cancelled'"
            assert await database.fetchval(ends) == 49


async def test_a_rejected_one_says_which_is_there(database: Database) -> None:
    (first,) = await database.fetch(CALL, "keep")
    with pytest.raises(asyncpg.PostgresError, match=str(first["new_command_id"])) as refused:
        await database.fetch(CALL, "reject")
    assert refused.value.sqlstate == "IB006"
    assert await _unsettled(database) == [first["id"]]
    with pytest.raises(asyncpg.InvalidParameterValueError, match="'never'"):
        await database.fetch(CALL, "never")


async def test_a_running_one_is_not_replaced(database: Database) -> None:
    (first,) = await database.fetch(CALL, "keep")
    await database.execute(
        "update inboxd.commands set status = 'running', worker_id = gen_random_uuid()"
    )
    (second,) = await database.fetch(CALL, "replace")
    assert (second["id"], second["duplicate"]) == (first["id"], True)


async def test_a_dead_letter_holds_no_key_and_cannot_come_back_beside_another(
    database: Database,
) -> None:
    await database.fetch(CALL, "keep")
    await database.execute("update inboxd.commands set status = 'failed'")
    (second,) = await database.fetch(CALL, "reject")
    assert not second["duplicate"]
    with pytest.raises(asyncpg.UniqueViolationError):
        await database.execute(
            "update inboxd.commands set status = 'pending' where status = 'failed'"
        )


async def test_other_types_and_settled_ones_are_not_in_the_way(database: Database) -> None:
    await database.fetch(CALL, "keep")
    (row,) = await database.fetch(CALL.replace("'t'", "'other'"), "reject")
    assert not row["duplicate"]


@pytest.mark.parametrize("conflict", ["keep", "replace"])
async def test_pages_with_the_same_keys_in_other_orders_do_not_deadlock(
    database: Database, conflict: str
) -> None:
    inbox = Inbox()
    made: list[list[bool]] = []

    async def send(numbers: range) -> None:
        async with database.connect() as connection:
            page = [
                NewCommand("t", queue="q", unique_key=f"u{n}", on_conflict=conflict)  # type: ignore[call-overload]
                for n in numbers
            ]
            made.append([sent.duplicate for sent in await inbox.send_many(connection, page)])

    async with anyio.create_task_group() as tasks:
        for turn in range(10):
            tasks.start_soon(send, range(100) if turn % 2 else range(99, -1, -1))
    with safety():
        assert len(await _unsettled(database)) == 100
        assert sum(each.count(False) for each in made) == (100 if conflict == "keep" else 1000)


async def test_a_page_with_one_key_several_times(database: Database) -> None:
    def page(conflict: str) -> list[dict[str, Any]]:
        return [
            {"type": "t", "queue": "q", "unique_key": "u", "on_conflict": conflict, "priority": n}
            for n in range(3)
        ]

    for conflict, kept in (("keep", 0), ("replace", 2)):
        rows = await database.fetch(
            "select * from inboxd.send_commands($1::jsonb)", json.dumps(page(conflict))
        )
        assert [row["duplicate"] for row in rows] == [n != kept for n in range(3)]
        assert len({row["id"] for row in rows}) == 1
        assert await database.fetchval("select priority from inboxd.commands") == kept


async def test_two_sessions_the_second_waits_for_the_first(database: Database) -> None:
    async with database.connect() as one, database.connect() as two:
        transaction = one.transaction()
        await transaction.start()
        first = await one.fetchrow(CALL, "keep")
        result: list[Any] = []

        async def second() -> None:
            result.append(await two.fetchrow(CALL, "keep"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second)
            await lock_awaited(database)
            assert result == []
            await transaction.rollback()
        assert first is not None
        with safety():
            assert not result[0]["duplicate"]


async def test_the_client_is_told_and_refuses_nonsense(database: Database) -> None:
    inbox = Inbox()
    async with database.connect() as connection:
        first = await inbox.send(connection, "t", queue="q", unique_key="u")
        second = await inbox.send(connection, "t", queue="q", unique_key="u")
        assert second == first._replace(duplicate=True)
        with pytest.raises(UsageError, match="on_conflict"):
            await inbox.send(connection, "t", on_conflict="never")  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="ordering_key"):
            await inbox.send(connection, "t", ordering_key="")


async def test_what_handlers_send(database: Database) -> None:
    parent = Parent("event", 1, Lineage(None, None, None))

    def draft(**fields: Any) -> tuple[CommandDraft, Parent]:
        return CommandDraft(uuid4(), "t", "{}", queue="q", unique_key="u", **fields), parent

    async with daemon_session(database) as session:
        first = draft()
        await commands.insert(session, SQL, [first, draft()])
        assert (
            await database.fetchval("select command_id from inboxd.commands") == first[0].command_id
        )
        last = draft(on_conflict="replace")
        await commands.insert(session, SQL, [draft(on_conflict="replace"), last])
        assert (
            await database.fetchval("select command_id from inboxd.commands") == last[0].command_id
        )
        with pytest.raises(UniqueKeyTaken, match=str(last[0].command_id)):
            await commands.insert(session, SQL, [draft(on_conflict="reject")])
