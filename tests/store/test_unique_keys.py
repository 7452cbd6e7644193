"""At most one unsettled command of a type has a unique key: kept, replaced or rejected."""

import json
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest

from inboxd import operations
from inboxd.api.drafts import CommandDraft
from inboxd.client import Inbox, NewCommand
from inboxd.errors import Conflict, UniqueKeyTaken, UsageError
from inboxd.model.lineage import Lineage
from inboxd.store import commands
from inboxd.store.session import Session
from inboxd.store.settlements import Parent
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio
CALL = "select * from inboxd.send_command('t', queue => 'q', unique_key => 'u', on_conflict => $1)"


async def _unsettled(database: Database) -> list[int]:
    return [row[0] for row in await database.fetch("select id from inboxd.commands order by id")]


@pytest.mark.parametrize("conflict", ["keep", "replace"])
async def test_fifty_senders_leave_one_command(database: Database, conflict: str) -> None:
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


async def test_error_names_the_command_that_has_the_key(database: Database) -> None:
    (first,) = await database.fetch(CALL, "keep")
    with pytest.raises(asyncpg.PostgresError, match=str(first["new_command_id"])) as refused:
        await database.fetch(CALL, "reject")
    assert refused.value.sqlstate == "IB006"
    assert await _unsettled(database) == [first["id"]]
    with pytest.raises(asyncpg.InvalidParameterValueError, match="'never'"):
        await database.fetch(CALL, "never")


async def test_running_command_is_not_replaced(database: Database) -> None:
    (first,) = await database.fetch(CALL, "keep")
    await database.execute(
        "update inboxd.commands set status = 'running', worker_id = gen_random_uuid()"
    )
    (second,) = await database.fetch(CALL, "replace")
    assert (second["id"], second["duplicate"]) == (first["id"], True)


async def test_dead_letter_frees_its_key_and_cannot_return_beside_another(
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


async def test_commands_of_other_types_may_have_the_same_key(database: Database) -> None:
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


async def test_one_command_of_a_page_gets_a_repeated_key(database: Database) -> None:
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


async def test_second_session_waits_for_the_first(database: Database) -> None:
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


@pytest.mark.parametrize("conflict", ["keep", "replace", "reject"])
@pytest.mark.parametrize("key", ["u", "other"])
async def test_repeated_command_id_returns_the_first_command(
    database: Database, conflict: str, key: str
) -> None:
    """Both sessions send at once: a command that waits for the first one must not be cancelled."""
    id_ = uuid4()
    call = CALL.replace("$1", "$1, command_id => $2").replace("'u'", "$3")
    again: list[asyncpg.Record] = []

    async def second() -> None:
        again.extend(await database.fetch(call, conflict, id_, key))

    async with anyio.create_task_group() as tasks, database.connect() as one:
        transaction = one.transaction()
        await transaction.start()
        first = await one.fetchrow(call, conflict, id_, "u")
        await one.fetch('select inboxd.send_after($1, \'{"type": "next"}\')', id_)
        tasks.start_soon(second)
        await lock_awaited(database)
        await transaction.commit()
    assert first is not None
    with safety():
        assert dict(again[0]) == {**first, "duplicate": True}
        third = (await database.fetch(call, conflict, id_, key))[0]
        assert dict(third) == {**first, "duplicate": True}
        assert await database.fetchval("select count(*) from inboxd.commands_history") == 0
        assert len(await _unsettled(database)) == 2


async def test_repeated_command_replaces_no_other(database: Database) -> None:
    """The command exists already with its own key; the command with the other key stays."""
    id_ = uuid4()
    call = CALL.replace("$1", "$1, command_id => $2").replace("'u'", "$3")
    await database.fetch(call, "keep", id_, "a")
    await database.fetch(call, "keep", uuid4(), "b")
    (row,) = await database.fetch(call, "replace", id_, "b")
    assert (row["new_command_id"], row["duplicate"]) == (id_, True)
    with safety():
        assert await database.fetchval("select count(*) from inboxd.commands_history") == 0


@pytest.mark.parametrize("conflict", ["keep", "replace", "reject"])
async def test_command_of_a_plain_insert_is_a_duplicate_or_an_error(
    database: Database, conflict: str
) -> None:
    """A plain insert takes no lock: it stays, and a sender with `reject` gets an error."""
    outcomes: list[str] = []

    async def send() -> None:
        try:
            (row,) = await database.fetch(CALL, conflict)
        except asyncpg.PostgresError as refused:
            outcomes.append(refused.sqlstate)
        else:
            outcomes.append("duplicate" if row["duplicate"] else "written")

    async with anyio.create_task_group() as tasks, database.connect() as one:
        transaction = one.transaction()
        await transaction.start()
        await one.execute(
            "insert into inboxd.commands (queue, type, unique_key) values ('q', 't', 'u')"
        )
        tasks.start_soon(send)
        await lock_awaited(database)
        await transaction.commit()
    with safety():
        assert outcomes == ["IB006" if conflict == "reject" else "duplicate"]
        assert len(await _unsettled(database)) == 1


@pytest.mark.parametrize("conflict", ["keep", "replace", "reject"])
@pytest.mark.parametrize("line", [None, "k"])
@pytest.mark.parametrize("first", ["replay", "sender"])
async def test_replay_and_sender_of_one_key_run_one_after_another(
    database: Database, conflict: str, line: str | None, first: str
) -> None:
    """The second one waits, and sees the result of the first."""
    call = CALL.replace("$1", "$1, ordering_key => $2")
    (dead,) = await database.fetch(call, "keep", line)
    await database.execute("update inboxd.commands set status = 'failed', line_at = now()")
    outcomes: list[str] = []

    async def send(session: Session) -> None:
        try:
            row = await session.connection.fetchrow(call, conflict, line)
        except asyncpg.PostgresError as refused:
            outcomes.append(refused.sqlstate)
        else:
            assert row is not None
            outcomes.append("duplicate" if row["duplicate"] else "written")

    async def replay(session: Session) -> None:
        try:
            await operations.act(session, "commands", "replay", [dead["id"]], actor="me")
        except Conflict:
            outcomes.append("refused")
        else:
            outcomes.append("replayed")

    one_does, other_does = (replay, send) if first == "replay" else (send, replay)
    async with (
        daemon_session(database) as one,
        daemon_session(database) as other,
        anyio.create_task_group() as tasks,
    ):
        transaction = one.transaction()
        await transaction.start()
        await one_does(one)
        tasks.start_soon(other_does, other)
        await lock_awaited(database)
        await transaction.commit()
    second = {"keep": "duplicate", "replace": "written", "reject": "IB006"}[conflict]
    with safety():
        assert outcomes == (["replayed", second] if first == "replay" else ["written", "refused"])
        holders = "select count(*) from inboxd.commands where status <> 'failed'"
        assert await database.fetchval(holders) == 1


async def test_client_reports_duplicates_and_refuses_invalid_arguments(database: Database) -> None:
    inbox = Inbox()
    async with database.connect() as connection:
        first = await inbox.send(connection, "t", queue="q", unique_key="u")
        second = await inbox.send(connection, "t", queue="q", unique_key="u")
        assert second == first._replace(duplicate=True)
        with pytest.raises(UsageError, match="on_conflict"):
            await inbox.send(connection, "t", on_conflict="never")  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="ordering_key"):
            await inbox.send(connection, "t", ordering_key="")


async def test_handlers_commands_follow_on_conflict(database: Database) -> None:
    parent = Parent("event", 1, Lineage(None, None, None))

    def draft(**fields: Any) -> tuple[CommandDraft, Parent]:
        return CommandDraft(uuid4(), "t", "{}", queue="q", unique_key="u", **fields), parent

    async with daemon_session(database) as session:
        first = draft()
        await commands.insert(session, [first, draft()])
        assert (
            await database.fetchval("select command_id from inboxd.commands") == first[0].command_id
        )
        last = draft(on_conflict="replace")
        await commands.insert(session, [draft(on_conflict="replace"), last])
        assert (
            await database.fetchval("select command_id from inboxd.commands") == last[0].command_id
        )
        with pytest.raises(UniqueKeyTaken, match=str(last[0].command_id)):
            await commands.insert(session, [draft(on_conflict="reject")])
