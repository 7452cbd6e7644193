"""Databases for tests: copied from a template, dropped again, with a clock that can be moved.

In a template, our own `now()` and similar functions precede the server's in each search_path. Known
limit: a session with its own search_path, and CURRENT_TIMESTAMP, have the server's time.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

from inboxd.settings import Database
from inboxd.store.connections import Row, explained
from inboxd.store.session import Session, connect
from inboxd.store.wakeups import HotTable

_TO_THE_DENIED = "grant the role this privilege, or let the tests start their own server"


@asynccontextmanager
async def open_session(database: Database) -> AsyncIterator[Session]:
    """A session for the `async with` block. Raises DatabaseError with a remedy."""
    session = await connect(database, "test", plans={"statement_timeout": "0"})
    try:
        yield session
    finally:
        await session.connection.close()


async def may_create(session: Session) -> Row:
    """The session's role (`role`), and whether it may create databases (`may`)."""
    return await session.one("may_create_databases")


async def create(session: Session, name: str, template: str, *, by_file: bool) -> None:
    with explained(_TO_THE_DENIED):
        await _run(session, "create_test_database", name, template, by_file)
        await _run(session, "use_test_clock", name)


async def drop(session: Session, name: str) -> None:
    """Drop a database, even while sessions are connected to it. Raises DatabaseError."""
    with explained(_TO_THE_DENIED):
        await _run(session, "drop_test_database", name)


@asynccontextmanager
async def alone(session: Session) -> AsyncIterator[None]:
    """Keep other processes from making templates on this server. Raises DatabaseError."""
    with explained(_TO_THE_DENIED):
        await session.execute("lock_test_templates")
    try:
        yield
    finally:
        await session.execute("unlock_test_templates")


async def make_clock(session: Session) -> None:
    """Install the clock that tests can move, before anything else is made in this database."""
    with explained(_TO_THE_DENIED):
        await session.execute("make_test_clock")


async def follow_clock(session: Session) -> None:
    """Make functions with their own search_path, and defaults of columns, use the tests' clock."""
    with explained(_TO_THE_DENIED):
        for row in await session.fetch("follow_test_clock"):
            await session.connection.execute(row["statement"])


class Travelled(NamedTuple):
    """The clock's distance from the server's, in seconds, and its time."""

    seconds: float
    now: datetime


async def has_clock(session: Session) -> bool:
    return bool(await session.fetchval("has_test_clock"))


async def travel(session: Session, seconds: float | None, to: datetime | None = None) -> Travelled:
    row = await session.one("travel", seconds, to)
    return Travelled(row["travelled"].total_seconds(), row["now"])


async def rows(session: Session, table: HotTable, type_: str | None) -> list[str]:
    """All rows of a kind, or of a type, as JSON, in the order of ids."""
    return [row[0] for row in await session.fetch(f"tested_{table}", type_)]


async def due(session: Session) -> list[Row]:
    return await session.fetch("due_rows")


async def _run(session: Session, statement: str, *arguments: object) -> None:
    await session.connection.execute(await session.fetchval(statement, *arguments))
