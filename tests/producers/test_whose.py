"""Limits between producers: one must not change another's work, nor write deliveries."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.support import Database
from tests.support.endpoints import add, deliveries
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

OPEN = "select lines, finished_at from inboxd.open_import('event', 'orders.jsonl')"
ADVANCE = "select inboxd.advance_import('event', 'orders.jsonl', $1, $2, 0, 0, $3)"
DELIVERY = '{"type": "webhook.deliver", "payload": {"endpoint": "acme", "id": "a.1"}}'
KNOWN = "'00000000-0000-7000-8000-000000000001'"


@pytest.fixture
async def logins(database: Database) -> AsyncIterator[Sequence[str]]:
    """Two logins that are only producers."""
    names = [f"{database.name}_{each}" for each in ("alice", "mallory")]
    for name in names:
        await database.execute(f"CREATE ROLE {name} LOGIN IN ROLE inboxd_producer")
    yield names
    for name in names:
        await database.execute(f"DROP ROLE {name}")


@asynccontextmanager
async def logged_in(database: Database, login: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of that login."""
    async with database.connect() as connection:
        await connection.execute(f"SET SESSION AUTHORIZATION {login}")
        yield connection


async def opened(connection: asyncpg.Connection) -> tuple[Any, ...]:
    """How many lines of the file are written, and when it was finished."""
    (row,) = await connection.fetch(OPEN)
    return tuple(row)


async def test_a_file_is_advanced_only_by_the_login_that_writes_it(
    database: Database, logins: Sequence[str]
) -> None:
    """Another login that knows the file's name cannot make it skip lines."""
    alice, mallory = logins
    async with logged_in(database, alice) as connection:
        assert (await opened(connection))[0] == 0
        assert await connection.fetchval(ADVANCE, 0, 10, False)
    async with logged_in(database, mallory) as connection:
        with safety():
            assert not await connection.fetchval(ADVANCE, 10, 1_000_000, True)
            assert (await opened(connection))[0] == 0
        assert await connection.fetchval(ADVANCE, 0, 7, True)
    async with logged_in(database, alice) as connection:
        with safety():
            assert await opened(connection) == (10, None)
            assert await connection.fetchval(ADVANCE, 10, 20, True)


async def test_a_file_from_before_logins_were_recorded_goes_on(
    database: Database, logins: Sequence[str]
) -> None:
    await database.execute(
        "insert into inboxd.imports (kind, name, lines) values ('event', 'orders.jsonl', 5)"
    )
    async with logged_in(database, logins[0]) as connection:
        assert (await opened(connection))[0] == 5
    async with logged_in(database, logins[1]) as connection:
        assert (await opened(connection))[0] == 0


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO inboxd.commands (type, queue) VALUES ('webhook.deliver', 'webhooks.acme')",
        "INSERT INTO inboxd.commands (type) VALUES ('webhook.deliver')",
        "SELECT inboxd.send_command('webhook.deliver')",
        "SELECT inboxd.send_command('webhook.deliver', unique_key => 'k')",
        f"SELECT inboxd.send_commands('[{DELIVERY}]')",
        (
            "SELECT inboxd.send_command_arrays(ARRAY['a.b', 'webhook.deliver'],"
            " ARRAY['{}', '{}']::jsonb[])"
        ),
        f"SELECT inboxd.send_batch('b', '[{DELIVERY}]')",
        f"SELECT inboxd.send_batch('b', '[]', finally_send => '{DELIVERY}')",
        f"""SELECT inboxd.send_workflow('w', '[{DELIVERY[:-1]}, "name": "one"}}]')""",
        f"SELECT inboxd.send_after({KNOWN}, '{DELIVERY}')",
    ],
)
async def test_a_delivery_cannot_be_written_by_hand(
    database: Database, logins: Sequence[str], statement: str
) -> None:
    """It could name an endpoint of another tenant, and an id that cannot be signed."""
    await add(database, "acme", tenant="acme")
    async with logged_in(database, logins[0]) as connection:
        await connection.execute(f"SELECT inboxd.send_command('a.b', command_id => {KNOWN})")
        with pytest.raises(asyncpg.InvalidParameterValueError, match="send_webhook") as refused:
            await connection.execute(statement)
        assert "Call send_webhook" in str(refused.value.hint)
    with safety():
        assert await deliveries(database) == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO inboxd.commands (type) VALUES ('webhook.emitted')",
        "SELECT inboxd.send_command('webhook.emitted', unique_key => 'the id of an event')",
        """SELECT inboxd.send_batch('b', '[{"type": "webhook.emitted"}]')""",
    ],
)
async def test_no_command_of_an_emitted_event_is_written_by_hand(
    database: Database, logins: Sequence[str], statement: str
) -> None:
    """Such a command could hold the unique key of a later event, whose deliveries would be lost."""
    async with logged_in(database, logins[0]) as connection:
        with pytest.raises(asyncpg.InvalidParameterValueError, match="emitted events alone"):
            await connection.execute(statement)


@pytest.mark.parametrize(
    "more", ["", ", tenant => 'acme'", ", endpoint => 'acme', tenant => 'acme'"]
)
async def test_a_producer_sends_webhooks_with_the_function(
    database: Database, logins: Sequence[str], more: str
) -> None:
    await add(database, "acme")
    async with logged_in(database, logins[0]) as connection:
        rows: list[Any] = await connection.fetch(
            f"select * from inboxd.send_webhook('user.created'{more})"
        )
    assert len(rows) == 1


@pytest.mark.parametrize("role", ["inboxd_worker", None])
async def test_a_role_that_may_change_endpoints_may_write_deliveries(
    database: Database, role: str | None
) -> None:
    async with database.connect() as connection:
        if role:
            await connection.execute(f"SET ROLE {role}")
        await connection.execute("INSERT INTO inboxd.commands (type) VALUES ('webhook.deliver')")
    assert len(await deliveries(database)) == 1
