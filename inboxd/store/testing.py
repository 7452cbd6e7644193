"""Databases for tests: made from a template, dropped again, with a clock that can be moved.

Promises: nothing of it is in a database that `inboxd migrate` made. How the clock is moved: in a
template, `now()` and its like of a schema of our own stand before those of the server, by the
database's search_path and that of each function; so all that was made there, and each session on a
copy, goes by them. Known limit: a session that sets a search_path of its own, and what says
CURRENT_TIMESTAMP, have the server's time.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

from inboxd.settings import Database
from inboxd.store.connections import Connection, Row, connect, explained, one_row
from inboxd.store.statements import Statements, shared
from inboxd.store.wakeups import HotTable

_TO_THE_DENIED = "give the role the right, or let the tests start a server of their own"


@asynccontextmanager
async def open_connection(database: Database) -> AsyncIterator[Connection]:
    """A connection for the `async with` block. Raises DatabaseError, which says what to do."""
    connection = await connect(database, "test", plans={"statement_timeout": "0"})
    try:
        yield connection
    finally:
        await connection.close()


async def may_create(connection: Connection) -> Row:
    """Who asks (role), and whether that role may make databases (may)."""
    return await one_row(connection, shared("may_create_databases"))


async def create(connection: Connection, name: str, template: str, *, by_file: bool) -> None:
    """Make a database, a copy of `template`. Raises DatabaseError."""
    with explained(_TO_THE_DENIED):
        await _run(connection, "create_test_database", name, template, by_file)
        await _run(connection, "use_test_clock", name)


async def drop(connection: Connection, name: str) -> None:
    """Drop a database, whoever is connected to it. Raises DatabaseError."""
    with explained(_TO_THE_DENIED):
        await _run(connection, "drop_test_database", name)


@asynccontextmanager
async def alone(connection: Connection) -> AsyncIterator[None]:
    """No other process makes a template on this server meanwhile. Raises DatabaseError."""
    with explained(_TO_THE_DENIED):
        await connection.execute(shared("lock_test_templates"))
    try:
        yield
    finally:
        await connection.execute(shared("unlock_test_templates"))


async def make_clock(connection: Connection) -> None:
    """Put a clock that tests can move into this database, before anything else is made in it."""
    with explained(_TO_THE_DENIED):
        await connection.execute(shared("make_test_clock"))


async def follow_clock(connection: Connection, sql: Statements) -> None:
    """Let functions and defaults of columns follow the clock of tests."""
    with explained(_TO_THE_DENIED):
        for row in await connection.fetch(sql["follow_test_clock"]):
            await connection.execute(row["statement"])


class Travelled(NamedTuple):
    """How far the clock is from the server's, in seconds, and the time that it is."""

    seconds: float
    now: datetime


async def has_clock(connection: Connection) -> bool:
    """Whether tests can move the clock of this database."""
    return bool(await connection.fetchval(shared("has_test_clock")))


async def travel(
    connection: Connection, seconds: float | None, to: datetime | None = None
) -> Travelled:
    """Move the clock by so many seconds, or to a time."""
    row = await one_row(connection, shared("travel"), seconds, to)
    return Travelled(row["travelled"].total_seconds(), row["now"])


async def rows(
    connection: Connection, sql: Statements, table: HotTable, type_: str | None
) -> list[str]:
    """Everything that there is of a kind, as JSON, in the order of ids."""
    return [row[0] for row in await connection.fetch(sql[f"tested_{table}"], type_)]


async def due(connection: Connection, sql: Statements) -> list[Row]:
    """What is due in lanes: kind, lane, type, id."""
    return await connection.fetch(sql["due_rows"])


async def _run(connection: Connection, statement: str, *arguments: object) -> None:
    """Run the statement that a statement returns."""
    await connection.execute(await connection.fetchval(shared(statement), *arguments))
