"""Waiting for the result of a command: on every kind of connection, for every end."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from inboxd import operations
from inboxd.client import (
    CommandCancelled,
    CommandFailed,
    Inbox,
    ResultTimeout,
    UnknownCommand,
)
from inboxd.errors import UsageError
from tests.producers.conftest import Producer, settled
from tests.support import Database, StartWorker
from tests.support.rows import daemon_session
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio

inbox = Inbox()


async def end(
    database: Database,
    command: UUID,
    status: str = "succeeded",
    result: str | None = None,
    errors: str | None = None,
) -> None:
    """Settle a command as a worker does."""
    await database.execute(
        "WITH gone AS (DELETE FROM inboxd.commands WHERE command_id = $1 RETURNING *) "
        "INSERT INTO inboxd.commands_history SELECT (jsonb_populate_record("
        "NULL::inboxd.commands_history, to_jsonb(gone) || jsonb_build_object("
        "'status', $2::text, 'result', $3::text::jsonb, 'errors', $4::text::jsonb, "
        "'finished_at', now()))).* FROM gone",
        command,
        status,
        result,
        errors,
    )


async def test_a_result_is_returned_on_every_kind_of_connection(
    producer: Producer, database: Database
) -> None:
    sent = await settled(inbox.send(producer.connection, "a.b"))
    await settled(producer.commit())
    await end(database, sent.command_id, result='{"sum": 12.5, "who": "Olá"}')
    for _ in range(2):  # the first call leaves no transaction open
        found = await settled(inbox.result(producer.connection, sent.command_id))
        assert found == {"sum": 12.5, "who": "Olá"}


async def test_an_open_transaction_is_refused(producer: Producer) -> None:
    """The command has not committed: a wait inside the transaction would never end."""
    sent = await settled(inbox.send(producer.connection, "a.b"))
    with pytest.raises(UsageError, match="a transaction is open on this connection"):
        await settled(inbox.result(producer.connection, sent.command_id))
    await settled(producer.rollback())
    with pytest.raises(UnknownCommand, match="it was rolled back"):
        await settled(inbox.result(producer.connection, sent.command_id))


@asynccontextmanager
async def _asyncpg(dsn: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        yield pool


@asynccontextmanager
async def _psycopg(dsn: str) -> AsyncIterator[Any]:
    with ConnectionPool(dsn, min_size=1, max_size=1, open=True) as pool:
        yield pool


@asynccontextmanager
async def _psycopg_async(dsn: str) -> AsyncIterator[Any]:
    async with AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False) as pool:
        yield pool


@asynccontextmanager
async def _engine(dsn: str) -> AsyncIterator[Any]:
    engine = create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


@asynccontextmanager
async def _engine_async(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    yield engine
    await engine.dispose()


@pytest.mark.parametrize(
    "opened", [_asyncpg, _psycopg, _psycopg_async, _engine, _engine_async], ids=lambda f: f.__name__
)
async def test_a_pool_or_an_engine_waits_but_does_not_write(
    opened: Callable[[str], Any], database: Database
) -> None:
    command = await database.fetchval(
        "INSERT INTO inboxd.commands (type) VALUES ('a.b') RETURNING command_id"
    )
    await end(database, command, result="[1]")
    async with opened(database.dsn) as pool:
        assert await settled(inbox.result(pool, command)) == [1]
        with pytest.raises(UsageError, match="no pool, engine or cursor"):
            await settled(inbox.send(pool, "a.b"))


async def test_a_pool_gets_its_connection_back_between_two_looks(database: Database) -> None:
    async with asyncpg.create_pool(database.dsn, min_size=1, max_size=1) as pool:
        sent = await pool.fetchval(
            "INSERT INTO inboxd.commands (type) VALUES ('a.b') RETURNING command_id"
        )
        async with asyncio.TaskGroup() as tasks:
            waits = [tasks.create_task(inbox.result(pool, sent)) for _ in range(5)]
            await pool.fetchval("SELECT 1")
            await end(database, sent, result="7")
        assert [each.result() for each in waits] == [7] * 5


async def test_an_end_during_the_wait_is_noticed_soon(
    database: Database, start_worker: StartWorker
) -> None:
    """A worker runs the command; the wait is much shorter than its timeout."""
    await start_worker()
    async with database.connect() as connection:
        sent = await inbox.send(connection, "test.any", {"n": 1})
        assert await inbox.result(connection, sent.command_id, timeout="30s") == {"n": 1}
        failing = await inbox.send(connection, "test.permanent", {})
        with pytest.raises(CommandFailed, match="KeyError") as failed:
            await inbox.result(connection, failing.command_id, timeout="30s")
        assert failed.value.command_id == failing.command_id
        assert "gone for good" in failed.value.error
        with psycopg.connect(database.dsn) as blocking:
            sent = inbox.send(blocking, "test.any", "a text")
            blocking.commit()
            assert inbox.result(blocking, sent.command_id, timeout="30s") == "a text"


async def test_a_timeout_names_the_status(database: Database) -> None:
    async with database.connect() as connection:
        sent = await inbox.send(connection, "a.b")
        began = time.monotonic()
        with (
            bounded(),
            pytest.raises(ResultTimeout, match=r"is pending after [\d.]+ s: it continues") as late,
        ):
            await inbox.result(connection, sent.command_id, timeout="300ms")
        assert late.value.status == "pending"
        assert 0.3 <= late.value.seconds <= time.monotonic() - began
        assert isinstance(late.value, TimeoutError)
        with pytest.raises(ResultTimeout, match="is pending after"):
            await inbox.result(connection, sent.command_id, timeout="0s")
    with psycopg.connect(database.dsn) as blocking, pytest.raises(ResultTimeout):
        inbox.result(blocking, sent.command_id, timeout="20ms")


@asynccontextmanager
async def _taken(pool: Any) -> AsyncIterator[None]:
    """Take the pool's only connection."""
    if isinstance(pool, ConnectionPool):
        with pool.connection():
            yield
    else:
        async with pool.connection() if hasattr(pool, "connection") else pool.acquire():
            yield


@pytest.mark.parametrize("opened", [_asyncpg, _psycopg, _psycopg_async], ids=lambda f: f.__name__)
async def test_a_pool_without_a_free_connection_does_not_outlast_the_timeout(
    opened: Callable[[str], Any], database: Database
) -> None:
    """The error has the seconds that have really passed."""
    async with opened(database.dsn) as pool, _taken(pool):
        began = time.monotonic()
        with pytest.raises(ResultTimeout, match=r"has not been seen after [\d.]+ s") as late:
            await settled(inbox.result(pool, uuid4(), timeout="100ms"))
        assert 0.9 <= late.value.seconds <= time.monotonic() - began < 30, (
            "the pool's own wait counts"
        )


async def test_a_pool_may_use_the_rest_of_a_longer_timeout(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the pool's own timeout is shorter."""
    monkeypatch.setattr("inboxd.client.results._LEAST_LOOK_SECONDS", 0.0)
    with ConnectionPool(database.dsn, min_size=1, max_size=1, timeout=0.01, open=True) as pool:
        began = time.monotonic()
        with pool.connection(5), pytest.raises(ResultTimeout) as late:
            inbox.result(pool, uuid4(), timeout="200ms")
        assert 0.2 <= late.value.seconds <= time.monotonic() - began


async def test_each_end_raises_an_error_of_its_own(database: Database) -> None:
    async with database.connect() as connection:
        sent = [await inbox.send(connection, "a.b") for _ in range(3)]
        ids = [each.command_id for each in sent]
        await end(database, ids[0], "cancelled")
        await end(database, ids[1], "dismissed", errors='[{"error": "old"}, {"error": "E: new"}]')
        await database.execute(
            "UPDATE inboxd.commands SET status = 'failed', errors = '[{\"error\": \"E: dead\"}]'"
        )
        late = await inbox.send(connection, "a.b", expires_at=datetime.now(UTC))
        assert await connection.fetchval(
            "select inboxd.put_away(array_agg(id), 'expired') from inboxd.commands"
            " where expires_at is not null"
        )
        reason = "expired: not started in time"
        with pytest.raises(CommandCancelled, match=rf"was cancelled \({reason}\)") as expired:
            await inbox.result(connection, late.command_id)
        assert expired.value.reason == reason
        with pytest.raises(CommandCancelled, match=f"command {ids[0]} was cancelled"):
            await inbox.result(connection, ids[0])
        with pytest.raises(CommandFailed, match="has failed: E: new"):
            await inbox.result(connection, ids[1])
        with pytest.raises(CommandFailed, match="has failed: E: dead"):
            await inbox.result(connection, ids[2])
        with pytest.raises(UnknownCommand, match="there is no command"):
            await inbox.result(connection, uuid4())
        with pytest.raises(UsageError, match=r"command_id must be a uuid\.UUID"):
            await inbox.result(connection, str(ids[0]))  # type: ignore[call-overload]


async def test_a_replayed_command_is_followed_to_its_new_row(
    database: Database,
) -> None:
    async with daemon_session(database) as session:
        connection = session.connection
        sent = await inbox.send(connection, "a.b")
        await connection.execute("UPDATE inboxd.commands SET status = 'failed'")
        for _ in range(2):
            dead = await connection.fetchval("SELECT max(id) FROM inboxd.commands")
            await operations.act(session, "commands", "replay", [dead], actor="me")
            await connection.execute(
                "UPDATE inboxd.commands SET status = 'failed', errors = $1",
                '[{"error": "E: again"}]',
            )
            with pytest.raises(CommandFailed, match=f"{sent.command_id} has failed: E: again"):
                await inbox.result(connection, sent.command_id)
        heir = await connection.fetchval("SELECT command_id FROM inboxd.commands")
        assert heir != sent.command_id
        await end(database, heir, result='"at last"')
        assert await inbox.result(connection, sent.command_id) == "at last"


@pytest.mark.parametrize("role", ["inboxd_producer", "inboxd_worker"])
async def test_a_producer_may_read_results_but_no_table(database: Database, role: str) -> None:
    async with database.connect() as connection:
        await connection.execute(f"SET ROLE {role}")
        sent = await inbox.send(connection, "a.b")
        await end(database, sent.command_id, result="3")
        assert await inbox.result(connection, sent.command_id) == 3
