"""The role inboxd_producer may insert, but not read what it wrote, and nothing else."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from inboxd.client import Inbox, NewCommand, NewEvent
from tests.support import Database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def producer(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A connection with the role's rights."""
    async with database.connect() as connection:
        await connection.execute("SET ROLE inboxd_producer")
        yield connection


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO inboxd.events (type, payload) VALUES ('a.b', '{}')",
        "INSERT INTO inboxd.events (type, payload) VALUES ('a.b', '{}') RETURNING id, event_id",
        (
            "INSERT INTO inboxd.events (event_id, type) VALUES (gen_random_uuid(), 'a.b') "
            "ON CONFLICT (event_id, topic) DO NOTHING"
        ),
        (
            "INSERT INTO inboxd.events (type, payload) "
            "VALUES ('a.b', jsonb_build_object('blob', repeat('x', 5000)))"
        ),
        "INSERT INTO inboxd.commands (type, payload) VALUES ('a.b', '{}') RETURNING id, command_id",
        (
            "INSERT INTO inboxd.commands (command_id, queue, type, priority, deadline) "
            "VALUES (gen_random_uuid(), 'q', 'a.b', 1, now()) ON CONFLICT (command_id) DO NOTHING"
        ),
        (
            "INSERT INTO inboxd.events (type, mode, ordering_key, dedup_key, source) "
            "VALUES ('a.b', 'sequential', 'o', 'd', 's') RETURNING id, event_id, topic"
        ),
        "SELECT * FROM inboxd.emit_event('a.b', '{}', dedup_key => 'd', ordering_key => 'o')",
        "SELECT * FROM inboxd.emit_event('a.b', '{}')",
        "SELECT * FROM inboxd.send_command('a.b', '{}')",
        "SELECT * FROM inboxd.command_result(gen_random_uuid())",
        """SELECT * FROM inboxd.emit_events('[{"type": "a.b"}]')""",
        """SELECT * FROM inboxd.send_commands('[{"type": "a.b"}]')""",
    ],
)
async def test_a_producer_may_insert(producer: asyncpg.Connection, statement: str) -> None:
    await producer.fetch(statement)


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT payload FROM inboxd.{table}",
        "SELECT * FROM inboxd.{table}",
        "INSERT INTO inboxd.{table} (type) VALUES ('a.b') RETURNING payload",
        "INSERT INTO inboxd.{table} (id, type) OVERRIDING SYSTEM VALUE VALUES (1, 'a.b')",
        "INSERT INTO inboxd.{table} (type, status) VALUES ('a.b', 'failed')",
        "INSERT INTO inboxd.{table} (type, attempts) VALUES ('a.b', 1)",
        "INSERT INTO inboxd.{table} (type, body_id) VALUES ('a.b', 1)",
        "UPDATE inboxd.{table} SET type = 'x'",
        "DELETE FROM inboxd.{table}",
        "TRUNCATE inboxd.{table}",
        "SELECT * FROM inboxd.{table}_history",
        "SELECT payload FROM inboxd.bodies",
        "INSERT INTO inboxd.bodies (payload) VALUES ('{{}}')",
        "SELECT * FROM inboxd.workers",
        "SELECT setval('inboxd.{table}_flag', 0)",
        "SELECT inboxd.make_partitions(1)",
        "SELECT inboxd.declared_queue('a.b')",
        "SELECT inboxd.remember('t', 's', 'k', gen_random_uuid(), 1)",
        "SELECT inboxd.settle_command(1, 1, gen_random_uuid(), 1)",
        "CREATE TABLE inboxd.mine ()",
    ],
)
async def test_a_producer_may_not_read_or_change_rows(
    producer: asyncpg.Connection, statement: str, table: str
) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await producer.execute(statement.format(table=table))


@pytest.mark.parametrize("role", ["inboxd_producer", "inboxd_worker"])
async def test_the_client_needs_no_further_rights(database: Database, role: str) -> None:
    """The worker's role may use it too: handlers emit and send on their worker's connection."""
    inbox, known = Inbox(), uuid4()
    async with database.connect() as connection:
        await connection.execute(f"SET ROLE {role}")
        first = await inbox.emit(connection, "a.b", {"blob": "x" * 5000}, event_id=known)
        (again,) = await inbox.emit_many(connection, [NewEvent("a.b", event_id=known)])
        assert (again.id, again.duplicate) == (first.id, True)
        await inbox.send_many(connection, [NewCommand("a.b"), NewCommand("a.c")])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE inboxd.events SET {column} = {column}",
        "UPDATE inboxd.commands SET {column} = {column}",
    ],
)
async def test_a_worker_may_change_the_state_of_a_row_but_not_its_content(
    database: Database, statement: str
) -> None:
    table = statement.split(" ")[1]
    says = {
        *("type", "schema_version", "payload", "ordering_key", "bucket", "tenant"),
        *("entity_type", "entity_id", "correlation_id", "causation_id", "traceparent"),
        *("body_id", "body_at", "body_bytes", "created_at"),
        *("event_id", "topic", "source", "dedup_key", "headers", "occurred_at"),
        *("command_id", "queue", "unique_key", "max_attempts", "origin_kind", "origin_id"),
        *("replay_of", "batch_id", "result", "needs", "awaited", "sender"),
    }
    async with database.connect() as connection:
        columns = await connection.fetch(
            "select attname from pg_attribute where attrelid = $1::text::regclass and attnum > 1",
            table,
        )
        await connection.execute("SET ROLE inboxd_worker")
        for (column,) in columns:
            if column not in says:
                await connection.execute(statement.format(column=column))
                continue
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement.format(column=column))
        for change in (
            "UPDATE inboxd.events_history SET status = status",
            "DELETE FROM inboxd.commands_history",
            "UPDATE inboxd.bodies SET payload = payload",
            "UPDATE inboxd.audit SET actor = actor",
            "DELETE FROM inboxd.audit",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(change)


async def test_other_roles_may_not_call_the_functions(database: Database) -> None:
    role = f"inboxd_test_{uuid4().hex[:12]}"
    async with database.connect() as connection:
        await connection.execute(f"CREATE ROLE {role}; SET ROLE {role}")
        try:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute("SELECT inboxd.emit_event('a.b')")
        finally:
            await connection.execute(f"RESET ROLE; DROP ROLE {role}")


def _documented() -> list[str]:
    """The documented grants for a producer's role, and for a receiver's."""
    page = (Path(__file__).parents[2] / "docs" / "producers.md").read_text(encoding="utf-8")
    return re.findall(r"```sql\n(GRANT USAGE.*?)```", page, re.DOTALL)


async def test_the_documented_grants_are_enough_for_an_own_role(database: Database) -> None:
    grants, _ = _documented()
    role = f"inboxd_test_{uuid4().hex[:12]}"
    async with database.connect() as connection:
        await connection.execute(f"CREATE ROLE {role}")
        await connection.execute(grants.replace("my_service", role))
        await connection.execute(f"SET ROLE {role}")
        try:
            await connection.execute("INSERT INTO inboxd.events (type) VALUES ('a') RETURNING id")
            await connection.execute("INSERT INTO inboxd.commands (type) VALUES ('a') RETURNING id")
            await connection.execute("SELECT inboxd.emit_event('a'), inboxd.send_command('a')")
            await Inbox().emit(connection, "a.b")
            await Inbox().send(connection, "a.b")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute("SELECT payload FROM inboxd.events")
            await connection.execute("RESET ROLE")
            producers = await _rights(connection, "inboxd_producer")
            assert await _rights(connection, role) == producers
        finally:
            await connection.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")


async def test_the_documented_grants_equal_those_of_a_receiver(database: Database) -> None:
    _, grants = _documented()
    role = f"inboxd_test_{uuid4().hex[:12]}"
    async with database.connect() as connection:
        await connection.execute(f"CREATE ROLE {role}")
        try:
            await connection.execute(grants.replace("my_receiver", role))
            receivers = await _rights(connection, "inboxd_receiver")
            assert await _rights(connection, role) == receivers != set()
        finally:
            await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def _rights(connection: asyncpg.Connection, role: str) -> set[tuple[str, ...]]:
    """The role's rights in the schema: on columns and functions."""
    rows = await connection.fetch(
        "SELECT privilege_type, table_name, column_name FROM information_schema.column_privileges"
        " WHERE grantee = $1 AND table_schema = 'inboxd' UNION ALL "
        "SELECT privilege_type, routine_name, '' FROM information_schema.routine_privileges"
        " WHERE grantee = $1 AND routine_schema = 'inboxd'",
        role,
    )
    return {tuple(row) for row in rows}
