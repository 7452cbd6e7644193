"""Rows for tests: a producer's inserts, the ledger of effects, sessions as the daemon opens them.

    await create_ledger(database)
    ids = await send(database, 100)
    assert await effects(database, "command") == dict.fromkeys(ids, 1)

Promises: inserts are those of a producer; `daemon_session` and `daemon_pool` have the daemon's
session settings.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol
from uuid import UUID, uuid4

import asyncpg
import orjson

from inboxd.settings import Database as Settings
from inboxd.store import workers
from inboxd.store.connections import Connection
from inboxd.store.pools import Pool, open_pool
from inboxd.store.session import Session, connect
from inboxd.store.statements import Statements
from tests.support.databases import Database
from tests.support.verdicts import Violation
from tests.support.worker import Config

SQL = Statements("inboxd")


class ExactlyOnce(Protocol):
    """The type of the fixture `exactly_once` of the tests under faults."""

    async def __call__(self, kind: str, ids: Sequence[int]) -> None:
        """Wait until these rows are settled, and assert that each took effect once."""


class Hasty(Protocol):
    """The type of the fixture `hasty` of the tests under faults."""

    def __call__(self, **sections: dict[str, Any]) -> Config:
        """Settings under which faults take seconds; the test's own sections override them."""


def settings_of(database: Database) -> Settings:
    """The daemon's settings for a test's database."""
    return Settings.model_validate({"dsn": database.dsn})


@asynccontextmanager
async def daemon_session(database: Database) -> AsyncIterator[Session]:
    """A session as the daemon opens it."""
    session = await connect(settings_of(database), "test")
    try:
        yield session
    finally:
        session.connection.terminate()


@asynccontextmanager
async def daemon_pool(database: Database, size: int = 4) -> AsyncIterator[Pool]:
    """A pool as the daemon opens it."""
    async with open_pool(settings_of(database), "test", size) as pool:
        yield pool


async def join(session: Session, name: str = "test") -> UUID:
    """Join as a worker, without a process; return the worker's id."""
    me = workers.WorkerIdentity(uuid4(), name, "host", 1, "0", (), (), (), "same")
    await workers.join(session, me)
    return me.id


async def create_ledger(database: Database) -> None:
    """Create the table where handlers write one row per effect, in their own transaction."""
    await database.execute("create table ledger (kind text, row_id bigint, note text)")


async def effects(database: Database, kind: str) -> Counter[int]:
    """The number of effects per row. Raises Violation if a row took effect more than once."""
    rows = await database.fetch("select row_id from ledger where kind = $1", kind)
    found = Counter(row[0] for row in rows)
    if repeated := {row: times for row, times in found.items() if times > 1}:
        raise Violation(f"{kind}s that took effect more than once: {repeated}")
    return found


async def emit(
    where: "Database | Connection", count: int, type_: str = "test.ledger", **payload: object
) -> list[int]:
    """Insert `count` events, numbered by `n`, in one statement; return their ids."""
    return await _insert(
        where,
        "insert into inboxd.events (type, payload) select $1, $2::text::jsonb || "
        "jsonb_build_object('n', n) from generate_series(1, $3::int) n returning id",
        type_,
        payload,
        count,
    )


async def send(
    where: "Database | Connection",
    count: int,
    type_: str = "test.ledger",
    queue: str = "default",
    **payload: object,
) -> list[int]:
    """Insert `count` commands, numbered by `n`, in one statement; return their ids."""
    return await _insert(
        where,
        "insert into inboxd.commands (type, payload, queue) select $1, $2::text::jsonb || "
        "jsonb_build_object('n', n), $4 from generate_series(1, $3::int) n returning id",
        type_,
        payload,
        count,
        queue,
    )


async def _insert(
    where: "Database | Connection", statement: str, type_: str, payload: object, *rest: object
) -> list[int]:
    rows = await where.fetch(statement, type_, orjson.dumps(payload).decode(), *rest)
    return [row[0] for row in rows]


async def unsettled(database: Database, table: str) -> list[asyncpg.Record]:
    """The rows of a hot table, for an assertion that shows what is wrong."""
    return await database.fetch(
        f"select id, type, status, attempts, crashes, errors from inboxd.{table} order by id"
    )


def most_in_a_second(times: Sequence[float]) -> int:
    """The largest number of these times that lie within one second."""
    return max(sum(start <= time < start + 1 for time in times) for start in times)


@asynccontextmanager
async def no_bounds(database: Database) -> AsyncIterator[None]:
    """Accept rows of any size during the block, as before there were bounds."""
    triggers = [
        ("events", "events_above_text"),
        ("events", "events_above_headers"),
        ("commands", "commands_above_text"),
        ("dedup", "dedup_above_text"),
    ]
    for table, trigger in triggers:
        await database.execute(f"alter table inboxd.{table} disable trigger {trigger}")
    try:
        yield
    finally:
        for table, trigger in triggers:
            await database.execute(f"alter table inboxd.{table} enable trigger {trigger}")
