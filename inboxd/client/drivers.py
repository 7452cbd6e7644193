"""The connections that a producer may use, distinguished without importing any driver.

Owns the table of drivers, and the two ways to run a query: *within* the caller's transaction, for
all writes, and *alone*, outside any transaction of the caller, for looks at results. Promises: a
connection is recognised by the names of its class and of that class's bases, so a subclass works as
well; rows are read by position, regardless of row factories, record classes or codecs that the
caller has set. Within, no transaction is opened, committed or rolled back. Alone, an open
transaction is refused before anything is sent, and a transaction that a driver opens by itself ends
with the query; for a session the query runs on another connection of its engine, so that the
session's objects do not expire. Known limits: pools cannot write, since the rows would be in no
transaction of the caller's. A transaction that SQL text began is seen only if the driver sees it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from inboxd.client.pages import Query
from inboxd.errors import InboxdError, UsageError

R = TypeVar("R")
T = TypeVar("T")


class _FetchesLater(Protocol):
    @property
    def fetch(self) -> Callable[..., Awaitable[Sequence[Any]]]: ...


class _FetchesNow(Protocol):
    @property
    def fetch(self) -> Callable[..., Sequence[Any]]: ...


class _ClosesLater(Protocol):
    def close(self) -> Awaitable[None]: ...


class _ClosesNow(Protocol):
    def close(self) -> None: ...


class _DisposesLater(Protocol):
    def dispose(self) -> Awaitable[None]: ...


class _DisposesNow(Protocol):
    def dispose(self) -> None: ...


# Types cannot be narrower without the drivers; `write` and `look` refuse lookalikes.
AsyncConnection: TypeAlias = _FetchesLater | _ClosesLater
SyncConnection: TypeAlias = _FetchesNow | _ClosesNow
# Also pools and engines.
AsyncDatabase: TypeAlias = AsyncConnection | _DisposesLater
SyncDatabase: TypeAlias = SyncConnection | _DisposesNow

Now: TypeAlias = "Callable[[Any, Query[Any]], Sequence[Any]]"
Later: TypeAlias = "Callable[[Any, Query[Any]], Coroutine[Any, Any, Sequence[Any]]]"


@dataclass(frozen=True, slots=True)
class Driver:
    """How one kind of connection runs a query, within a transaction and alone; async if `later`.

    Without `within` it cannot write; without `alone` it is always in a transaction.
    bounded: `alone` also takes the seconds that a pool has to give a connection.
    """

    within: Any = None
    alone: Any = None
    later: bool = False
    bounded: bool = False

    def look(self, connection: Any, query: Query[Any], seconds: float) -> Any:
        """Run a query alone. Raises NoConnection if a bounded pool has no connection in time."""
        return self.alone(connection, query, *([seconds] if self.bounded else []))


class NoConnection(InboxdError):
    """A pool had no free connection within its time limit."""


def write(
    connection: object, queries: Iterator[Query[R] | None], finish: Callable[[list[R]], T]
) -> T | Coroutine[Any, Any, T]:
    """Run the queries one after the other, and call `finish` with all their receipts.

    Returns its result, or an awaitable for an async connection. Raises UsageError for an unknown
    kind of connection.
    """
    driver = driver_of(connection)
    if driver is None or driver.within is None:
        raise UsageError(
            f"{_named(connection)} is not a connection that inboxd.client knows: give it a "
            "connection of asyncpg, psycopg 3, SQLAlchemy or Django (no pool, engine or cursor), "
            "so that its rows are part of your transaction."
        )
    if driver.later:
        return _run_later(driver.within, connection, queries, finish)
    return finish(_run(driver.within, connection, queries))


def look(connection: object) -> Driver:
    """The driver that runs a query alone on this connection. Raises UsageError without one."""
    driver = driver_of(connection)
    if driver is None:
        raise UsageError(
            f"{_named(connection)} is not a connection, pool or engine that inboxd.client knows: "
            "give it one of asyncpg, psycopg 3, SQLAlchemy or Django."
        )
    if driver.alone is None:
        raise UsageError(
            "a handler's connection is in the transaction of its row, and a handler that waits for "
            "a command holds up its worker: let a batch or a workflow run the commands that follow."
        )
    return driver


def driver_of(connection: object) -> Driver | None:
    """The driver of a connection, by the names of its class and of that class's bases."""
    for base in type(connection).__mro__:
        place = (base.__module__.partition(".")[0], base.__name__)
        if found := _DRIVERS.get(place):
            return found
    return None


def _named(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _run(fetch: Now, connection: Any, queries: Iterator[Query[R] | None]) -> list[R]:
    return [
        receipt
        for query in queries
        if query
        for receipt in query.receipts(fetch(connection, query))
    ]


async def _run_later(
    fetch: Later,
    connection: Any,
    queries: Iterator[Query[R] | None],
    finish: Callable[[list[R]], T],
) -> T:
    receipts: list[R] = []
    read: Callable[[], list[R]] = list  # the receipts of the page before
    query = await _following(queries)
    while query is not None:
        # While the server writes this page, the receipts of the last page are made and the next
        # page is encoded: 1.4 times the rows/s if a core is free for each, little otherwise.
        writing = asyncio.ensure_future(fetch(connection, query))
        try:
            await asyncio.sleep(0)  # lets the driver send it
            receipts += read()
            following = await _following(queries)
        except BaseException as error:
            # An invalid row: wait for the page before it, so that the transaction survives.
            if isinstance(error, asyncio.CancelledError):
                writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            raise
        read, query = partial(query.receipts, await writing), following
    return finish(receipts + read())


async def _following(queries: Iterator[Query[R] | None]) -> Query[R] | None:
    """The next query; while it is made, the event loop and the driver do other work."""
    for query in queries:
        if query is not None:
            return query
        await asyncio.sleep(0)
    return None


def _dollar(number: int) -> str:
    return f"${number}"


def _percent(_number: int) -> str:
    return "%s"


def _tuples(_cursor: object) -> type[tuple[Any, ...]]:
    """A psycopg row factory for plain tuples, in place of the connection's own."""
    return tuple


def _refuse_if(in_transaction: object) -> None:
    if in_transaction:
        raise UsageError(
            "a transaction is open on this connection: a command that it sent is seen by no worker "
            "before the commit, and its snapshot possibly lacks the result. Commit first, or give "
            "a pool or an engine."
        )


# ---------------------------------------------------------------------------------------- asyncpg


def _fetch(connection: Any, query: Query[Any]) -> Any:
    # For asyncpg, its pool, and a handler's `ctx.connection`; asyncpg gives a coroutine.
    return connection.fetch(query.text(_dollar), *query.arguments)


async def _fetch_alone(connection: Any, query: Query[Any]) -> Any:
    _refuse_if(connection.is_in_transaction())
    return await _fetch(connection, query)


# ---------------------------------------------------------------------------------------- psycopg


def _psycopg(connection: Any, query: Query[Any]) -> Any:
    with connection.cursor(row_factory=_tuples) as cursor:
        return cursor.execute(query.text(_percent), query.arguments).fetchall()


async def _psycopg_later(connection: Any, query: Query[Any]) -> Any:
    async with connection.cursor(row_factory=_tuples) as cursor:
        await cursor.execute(query.text(_percent), query.arguments)
        return await cursor.fetchall()


def _psycopg_alone(connection: Any, query: Query[Any]) -> Any:
    _refuse_if(connection.info.transaction_status)  # 0 is idle
    try:
        return _psycopg(connection, query)
    finally:
        if not connection.autocommit:
            connection.rollback()


async def _psycopg_alone_later(connection: Any, query: Query[Any]) -> Any:
    _refuse_if(connection.info.transaction_status)
    try:
        return await _psycopg_later(connection, query)
    finally:
        if not connection.autocommit:
            await connection.rollback()


def _psycopg_pool(pool: Any, query: Query[Any], seconds: float) -> Any:
    with _in_time(), pool.connection(seconds) as connection:
        return _psycopg(connection, query)


async def _psycopg_pool_later(pool: Any, query: Query[Any], seconds: float) -> Any:
    with _in_time():
        async with pool.connection(seconds) as connection:
            return await _psycopg_later(connection, query)


@contextmanager
def _in_time() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "PoolTimeout":
            raise NoConnection from error
        raise


# ------------------------------------------------------------------------------------- SQLAlchemy


def _exec(connection: Any, query: Query[Any]) -> tuple[str, tuple[Any, ...]]:
    """SQLAlchemy passes the text on unchanged, so it has the placeholders of its driver."""
    dollars = connection.dialect.paramstyle == "numeric_dollar"
    return query.text(_dollar if dollars else _percent), tuple(query.arguments)


def _sqlalchemy(connection: Any, query: Query[Any]) -> Any:
    return connection.exec_driver_sql(*_exec(connection, query)).fetchall()


async def _sqlalchemy_later(connection: Any, query: Query[Any]) -> Any:
    return (await connection.exec_driver_sql(*_exec(connection, query))).fetchall()


def _sqlalchemy_alone(connection: Any, query: Query[Any]) -> Any:
    _refuse_if(connection.in_transaction())
    try:
        return _sqlalchemy(connection, query)
    finally:
        connection.rollback()


async def _sqlalchemy_alone_later(connection: Any, query: Query[Any]) -> Any:
    return await connection.run_sync(_sqlalchemy_alone, query)


def _engine(engine: Any, query: Query[Any]) -> Any:
    with engine.connect() as connection:
        return _sqlalchemy(connection, query)


async def _engine_later(engine: Any, query: Query[Any]) -> Any:
    async with engine.connect() as connection:
        return await _sqlalchemy_later(connection, query)


def _session(session: Any, query: Query[Any]) -> Any:
    return _sqlalchemy(session.connection(), query)


async def _session_later(session: Any, query: Query[Any]) -> Any:
    return await _sqlalchemy_later(await session.connection(), query)


def _session_alone(session: Any, query: Query[Any]) -> Any:
    _refuse_if(session.in_transaction())
    bind = session.get_bind()
    # An engine, or the connection that the session was given.
    return (_engine if hasattr(bind, "connect") else _sqlalchemy_alone)(bind, query)


async def _session_alone_later(session: Any, query: Query[Any]) -> Any:
    return await session.run_sync(_session_alone, query)


# ----------------------------------------------------------------------------------------- Django


def _django(connection: Any, query: Query[Any]) -> Any:
    if connection.vendor != "postgresql":
        raise UsageError(
            f"Django's database {connection.alias!r} is {connection.display_name}: inboxd is in "
            "PostgreSQL; give it connections[...] of that database."
        )
    with connection.cursor() as cursor:
        cursor.execute(query.text(_percent), query.arguments)
        return cursor.fetchall()


def _django_alone(connection: Any, query: Query[Any]) -> Any:
    _refuse_if(connection.in_atomic_block or not connection.get_autocommit())
    return _django(connection, query)


# The package and the class; the modules between them change from release to release.
_DRIVERS = {
    ("asyncpg", "Connection"): Driver(_fetch, _fetch_alone, later=True),
    ("asyncpg", "PoolConnectionProxy"): Driver(_fetch, _fetch_alone, later=True),
    ("asyncpg", "Pool"): Driver(None, _fetch, later=True),
    ("psycopg", "Connection"): Driver(_psycopg, _psycopg_alone),
    ("psycopg", "AsyncConnection"): Driver(_psycopg_later, _psycopg_alone_later, later=True),
    ("psycopg_pool", "ConnectionPool"): Driver(None, _psycopg_pool, bounded=True),
    ("psycopg_pool", "AsyncConnectionPool"): Driver(
        None, _psycopg_pool_later, later=True, bounded=True
    ),
    ("sqlalchemy", "Connection"): Driver(_sqlalchemy, _sqlalchemy_alone),
    ("sqlalchemy", "Engine"): Driver(None, _engine),
    ("sqlalchemy", "Session"): Driver(_session, _session_alone),
    ("sqlalchemy", "scoped_session"): Driver(_session, _session_alone),
    ("sqlalchemy", "AsyncConnection"): Driver(
        _sqlalchemy_later, _sqlalchemy_alone_later, later=True
    ),
    ("sqlalchemy", "AsyncEngine"): Driver(None, _engine_later, later=True),
    ("sqlalchemy", "AsyncSession"): Driver(_session_later, _session_alone_later, later=True),
    ("sqlalchemy", "async_scoped_session"): Driver(
        _session_later, _session_alone_later, later=True
    ),
    # A database's wrapper, and `django.db.connection`, the proxy for this thread's wrapper.
    ("django", "BaseDatabaseWrapper"): Driver(_django, _django_alone),
    ("django", "ConnectionProxy"): Driver(_django, _django_alone),
    # Connections of handlers.
    ("inboxd", "BlockingConnection"): Driver(_fetch),
    ("inboxd", "LazyConnection"): Driver(_fetch, later=True),
}
