"""Producers behind PgBouncer in transaction mode: plain SQL, the functions, and `inboxd.client`.

Each kind of connection has its driver's options for this: no named prepared statements.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import psycopg
import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from inboxd.client import Inbox, NewCommand, NewEvent
from tests.producers.conftest import Producer, settled
from tests.support import Database
from tests.support.pooler import SESSIONS, pgbouncer

pytestmark = pytest.mark.anyio

inbox = Inbox()
COUNT = "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"


@pytest.fixture
def dsn(database: Database) -> Iterator[str]:
    """The URL of the test's database through PgBouncer."""
    with pgbouncer(database.dsn) as way:
        yield way.dsn


@asynccontextmanager
async def _asyncpg(dsn: str) -> AsyncIterator[Producer]:
    connection = await asyncpg.connect(dsn, statement_cache_size=0)
    transaction = connection.transaction()
    await transaction.start()
    yield Producer(connection, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def _psycopg(dsn: str) -> AsyncIterator[Producer]:
    with psycopg.connect(dsn, prepare_threshold=None) as connection:
        yield Producer(connection, connection.commit, connection.rollback)


def _sqlalchemy(driver: str, **arguments: object) -> Callable[[str], Any]:
    @asynccontextmanager
    async def opened(dsn: str) -> AsyncIterator[Producer]:
        url = dsn.replace("postgresql://", f"postgresql+{driver}://")
        # PgBouncer pools; a second pool before it would only occupy its places.
        engine = create_async_engine(url, poolclass=NullPool, connect_args=arguments)
        async with engine.connect() as connection:
            yield Producer(connection, connection.commit, connection.rollback)
        await engine.dispose()

    return opened


_OPEN: dict[str, Callable[[str], Any]] = {
    "asyncpg": _asyncpg,
    "psycopg": _psycopg,
    "sqlalchemy asyncpg": _sqlalchemy(
        "asyncpg",
        statement_cache_size=0,
        prepared_statement_cache_size=0,
        # SQLAlchemy prepares every statement: under a unique name.
        prepared_statement_name_func=lambda: f"__{uuid4()}__",
    ),
    "sqlalchemy psycopg": _sqlalchemy("psycopg", prepare_threshold=None),
}


@pytest.mark.parametrize("kind", _OPEN)
async def test_the_client_writes_in_the_callers_transaction(
    database: Database, dsn: str, kind: str
) -> None:
    async with _OPEN[kind](dsn) as producer:
        await settled(inbox.emit(producer.connection, "a.b", {"n": 1}))
        await settled(inbox.send(producer.connection, "a.b"))
        await settled(producer.rollback())
    assert await database.fetchval(COUNT) == 0
    async with _OPEN[kind](dsn) as producer:
        events = [NewEvent("a.b", {"n": n}) for n in range(1500)]
        receipts = await settled(inbox.emit_many(producer.connection, events))
        await settled(inbox.send_many(producer.connection, [NewCommand("a.b")] * 3))
        await settled(producer.commit())
    rows = await database.fetch("select id, event_id, payload from inboxd.events order by id")
    assert [(row["id"], row["event_id"], False, False) for row in rows] == receipts
    assert [json.loads(row["payload"])["n"] for row in rows] == list(range(1500))
    assert await database.fetchval("select count(*) from inboxd.commands") == 3


@pytest.mark.safety
async def test_more_producers_than_sessions_write_each_row_once(
    database: Database, dsn: str
) -> None:
    """They share the sessions, transaction by transaction, with three ways to write."""

    async def produce(number: int) -> None:
        connection = await asyncpg.connect(dsn, statement_cache_size=0)
        for n in range(6):
            note = json.dumps({"n": number * 100 + n})
            async with connection.transaction():
                match n % 3:
                    case 0:
                        await connection.execute(
                            "insert into inboxd.events (type, payload) values ('a.b', $1::jsonb)",
                            note,
                        )
                    case 1:
                        await connection.execute("select inboxd.emit_event('a.b', $1::jsonb)", note)
                    case _:
                        await inbox.emit(connection, "a.b", json.loads(note))
        await connection.close()

    async with anyio.create_task_group() as tasks:
        for number in range(3 * SESSIONS):
            tasks.start_soon(produce, number)
    rows = await database.fetch("select (payload->>'n')::int as n from inboxd.events")
    wanted = [number * 100 + n for number in range(3 * SESSIONS) for n in range(6)]
    assert sorted(row["n"] for row in rows) == wanted
