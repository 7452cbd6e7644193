"""The connections that a producer may have, told apart without importing any driver.

Owns the table of drivers. Promises: a connection is recognised by the names of its class and of
that class's bases, so a subclass works as well; rows are read by position, whatever row factory,
record class or codec the caller has set; no transaction is opened, committed or rolled back.
Known limit: a pool is refused, since what it writes would be in nobody's transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from inboxd.client.pages import Query
from inboxd.errors import UsageError

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


# As narrow as types can be without the drivers' own; `write` refuses what only looks like one.
AsyncConnection: TypeAlias = _FetchesLater | _ClosesLater
SyncConnection: TypeAlias = _FetchesNow | _ClosesNow


def write(
    connection: object, queries: Iterator[Query[R] | None], finish: Callable[[list[R]], T]
) -> T | Coroutine[Any, Any, T]:
    """Run the queries one after the other and finish with all their receipts.

    Returns the result itself, or for an async connection something to await. Raises UsageError for
    a connection of no known kind.
    """
    driver = type(connection)
    for base in driver.__mro__:
        place = (base.__module__.partition(".")[0], base.__name__)
        if fetch := _NOW.get(place):
            return finish(_run(fetch, connection, queries))
        if fetch_later := _LATER.get(place):
            return _run_later(fetch_later, connection, queries, finish)
    raise UsageError(
        f"{driver.__module__}.{driver.__qualname__} is not a connection that inboxd.client knows: "
        "give it a connection of asyncpg, psycopg 3 or SQLAlchemy (no pool, engine or cursor), "
        "so that what it writes is part of your transaction."
    )


def _run(fetch: "_Now", connection: Any, queries: Iterator[Query[R] | None]) -> list[R]:
    return [
        receipt
        for query in queries
        if query
        for receipt in query.receipts(fetch(connection, query))
    ]


async def _run_later(
    fetch: "_Later",
    connection: Any,
    queries: Iterator[Query[R] | None],
    finish: Callable[[list[R]], T],
) -> T:
    receipts: list[R] = []
    read: Callable[[], list[R]] = list  # the receipts of the page before
    query = await _following(queries)
    while query is not None:
        # While the server writes this page, the receipts of the last are made and the next is
        # encoded: 1.4 times the rows/s when a core is free for each, little when not.
        writing = asyncio.ensure_future(fetch(connection, query))
        try:
            await asyncio.sleep(0)  # it is sent
            receipts += read()
            following = await _following(queries)
        except BaseException as error:
            # A bad row: the page before it is let through, so that the transaction survives.
            if isinstance(error, asyncio.CancelledError):
                writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            raise
        read, query = partial(query.receipts, await writing), following
    return finish(receipts + read())


async def _following(queries: Iterator[Query[R] | None]) -> Query[R] | None:
    """The next query; at each breath of its making the event loop serves others, and the driver."""
    for query in queries:
        if query is not None:
            return query
        await asyncio.sleep(0)
    return None


_Now: TypeAlias = Callable[[Any, Query[Any]], Sequence[Any]]
_Later: TypeAlias = Callable[[Any, Query[Any]], Coroutine[Any, Any, Sequence[Any]]]


def _dollar(number: int) -> str:
    return f"${number}"


def _percent(_number: int) -> str:
    return "%s"


def _tuples(_cursor: object) -> type[tuple[Any, ...]]:
    """A psycopg row factory for plain tuples; the connection's own may make anything."""
    return tuple


def _fetch(connection: Any, query: Query[Any]) -> Any:
    # asyncpg's and a handler's `ctx.connection`; asyncpg gives a coroutine.
    return connection.fetch(query.text(_dollar), *query.arguments)


def _psycopg(connection: Any, query: Query[Any]) -> Any:
    with connection.cursor(row_factory=_tuples) as cursor:
        return cursor.execute(query.text(_percent), query.arguments).fetchall()


async def _psycopg_later(connection: Any, query: Query[Any]) -> Any:
    async with connection.cursor(row_factory=_tuples) as cursor:
        await cursor.execute(query.text(_percent), query.arguments)
        return await cursor.fetchall()


def _exec(connection: Any, query: Query[Any]) -> tuple[str, tuple[Any, ...]]:
    """SQLAlchemy hands the text on as it is: written as its driver wants it."""
    dollars = connection.dialect.paramstyle == "numeric_dollar"
    return query.text(_dollar if dollars else _percent), tuple(query.arguments)


def _sqlalchemy(connection: Any, query: Query[Any]) -> Any:
    return connection.exec_driver_sql(*_exec(connection, query)).fetchall()


async def _sqlalchemy_later(connection: Any, query: Query[Any]) -> Any:
    return (await connection.exec_driver_sql(*_exec(connection, query))).fetchall()


def _session(session: Any, query: Query[Any]) -> Any:
    return _sqlalchemy(session.connection(), query)


async def _session_later(session: Any, query: Query[Any]) -> Any:
    return await _sqlalchemy_later(await session.connection(), query)


# The package and the class; the modules between them move from release to release.
_NOW: dict[tuple[str, str], _Now] = {
    ("psycopg", "Connection"): _psycopg,
    ("sqlalchemy", "Connection"): _sqlalchemy,
    ("sqlalchemy", "Session"): _session,
    ("sqlalchemy", "scoped_session"): _session,
    ("inboxd", "BlockingConnection"): _fetch,
}
_LATER: dict[tuple[str, str], _Later] = {
    ("asyncpg", "Connection"): _fetch,
    ("asyncpg", "PoolConnectionProxy"): _fetch,
    ("psycopg", "AsyncConnection"): _psycopg_later,
    ("sqlalchemy", "AsyncConnection"): _sqlalchemy_later,
    ("sqlalchemy", "AsyncSession"): _session_later,
    ("sqlalchemy", "async_scoped_session"): _session_later,
    ("inboxd", "LazyConnection"): _fetch,
}
