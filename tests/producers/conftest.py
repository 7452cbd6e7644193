"""Producers' connections of every kind, with one way to use them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.support import Database
from tests.support.django_project import django_connection

KINDS = (
    "asyncpg",
    "asyncpg pool",
    "psycopg",
    "psycopg async",
    "sqlalchemy connection",
    "sqlalchemy session",
    "sqlalchemy async connection",
    "sqlalchemy async session",
    "sqlalchemy async psycopg",
    "django",
)


@dataclass(frozen=True)
class Producer:
    """A connection with an open transaction, and how to end it."""

    connection: Any
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


async def settled(answer: Any) -> Any:
    """The result of a call, awaited if necessary."""
    return await answer if isawaitable(answer) else answer


@pytest.fixture(params=KINDS)
async def producer(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Producer]:
    """A connection of each kind, one test for each."""
    async with _OPEN[request.param](database.dsn) as opened:
        yield opened


@asynccontextmanager
async def _asyncpg(dsn: str) -> AsyncIterator[Producer]:
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    yield Producer(connection, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def _asyncpg_pool(dsn: str) -> AsyncIterator[Producer]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as held:
        transaction = held.transaction()
        await transaction.start()
        yield Producer(held, transaction.commit, transaction.rollback)


@asynccontextmanager
async def _psycopg(dsn: str) -> AsyncIterator[Producer]:
    # A row factory of the caller must not matter.
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        yield Producer(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def _psycopg_async(dsn: str) -> AsyncIterator[Producer]:
    # No prepared statements, as behind a pooler in transaction mode.
    async with await psycopg.AsyncConnection.connect(dsn, prepare_threshold=None) as connection:
        yield Producer(connection, connection.commit, connection.rollback)


def _url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


@asynccontextmanager
async def _sqlalchemy(dsn: str) -> AsyncIterator[Producer]:
    engine = create_engine(_url(dsn, "psycopg"))
    with engine.connect() as connection:
        yield Producer(connection, connection.commit, connection.rollback)
    engine.dispose()


@asynccontextmanager
async def _session(dsn: str) -> AsyncIterator[Producer]:
    engine = create_engine(_url(dsn, "psycopg"))
    with Session(engine) as session:
        yield Producer(session, session.commit, session.rollback)
    engine.dispose()


def _sqlalchemy_async(driver: str, *, session: bool = False) -> Callable[[str], Any]:
    @asynccontextmanager
    async def opened(dsn: str) -> AsyncIterator[Producer]:
        engine = create_async_engine(_url(dsn, driver))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(engine.dispose)
            held: Any = AsyncSession(engine) if session else engine.connect()
            connection = await stack.enter_async_context(held)
            yield Producer(connection, connection.commit, connection.rollback)

    return opened


@asynccontextmanager
async def _django(dsn: str) -> AsyncIterator[Producer]:
    """It does not use `atomic`: a transaction is open because autocommit is off."""
    connection = django_connection(dsn)
    connection.set_autocommit(False)

    def end(how: Callable[[], None]) -> None:
        how()
        connection.set_autocommit(True)

    yield Producer(connection, partial(end, connection.commit), partial(end, connection.rollback))
    connection.close()


_OPEN: dict[str, Callable[[str], Any]] = {
    "asyncpg": _asyncpg,
    "asyncpg pool": _asyncpg_pool,
    "psycopg": _psycopg,
    "psycopg async": _psycopg_async,
    "sqlalchemy connection": _sqlalchemy,
    "sqlalchemy session": _session,
    "sqlalchemy async connection": _sqlalchemy_async("asyncpg"),
    "sqlalchemy async session": _sqlalchemy_async("asyncpg", session=True),
    "sqlalchemy async psycopg": _sqlalchemy_async("psycopg"),
    "django": _django,
}
