"""Types that a producer's editor shows: results on synchronous connections, awaitables on others.

mypy checks this file (`make check`); running it shows that the names exist.
"""

from collections.abc import Coroutine
from typing import Any, TypeAlias, assert_type
from uuid import uuid4

import asyncpg
import psycopg
from asyncpg.pool import PoolConnectionProxy
from psycopg_pool import ConnectionPool
from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

import inboxd
from inboxd.api.connection import BlockingConnection
from inboxd.client import Emitted, Inbox, NewCommand, NewEvent, Sent

# Strings, since these classes take parameters only in their stubs.
Now: TypeAlias = "psycopg.Connection[Any] | Connection | Session | BlockingConnection"
Later: TypeAlias = (
    "asyncpg.Connection[Any] | PoolConnectionProxy[Any] | psycopg.AsyncConnection[Any] "
    "| AsyncConnection | AsyncSession | inboxd.Connection"
)


def on_a_synchronous_connection(inbox: Inbox, connection: Now) -> None:
    assert_type(inbox.emit(connection, "a.b", {"n": 1}, tenant="t1"), Emitted)
    assert_type(inbox.emit_many(connection, [NewEvent("a.b")]), list[Emitted])
    assert_type(inbox.send(connection, "a.b", priority=1), Sent)
    assert_type(inbox.send_many(connection, iter([NewCommand("a.b")])), list[Sent])
    assert_type(inbox.result(connection, uuid4()), Any)
    inbox.emit(connection, "a.b", tenannt="t1")  # type: ignore[call-overload]
    inbox.emit(7, "a.b")  # type: ignore[call-overload]


def on_what_waits_and_does_not_write(
    inbox: Inbox, pool: "ConnectionPool[Any] | Engine", later: "asyncpg.Pool[Any] | AsyncEngine"
) -> None:
    inbox.result(pool, uuid4(), timeout="1s")
    waits: Coroutine[Any, Any, Any] = inbox.result(later, uuid4())
    waits.close()
    _ = inbox.result(7, uuid4())  # type: ignore[call-overload]


async def on_an_async_connection(inbox: Inbox, connection: Later) -> None:
    assert_type(await inbox.emit(connection, "a.b", {"n": 1}, tenant="t1"), Emitted)
    assert_type(await inbox.emit_many(connection, [NewEvent("a.b")]), list[Emitted])
    assert_type(await inbox.send(connection, "a.b", queue="q"), Sent)
    assert_type(await inbox.send_many(connection, [NewCommand("a.b")]), list[Sent])


def test_both_signatures_are_checked_by_mypy() -> None:
    assert callable(on_a_synchronous_connection)
    assert callable(on_an_async_connection)
    assert callable(on_what_waits_and_does_not_write)
