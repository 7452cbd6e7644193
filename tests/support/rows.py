"""Rows for tests: producers' inserts, the ledger that counts effects, the daemon's own sessions.

Promises: inserts are what a producer would write; `daemon_session` and `daemon_pool` are connected
as the daemon connects, with its session settings.
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
from inboxd.store.connections import Connection, connect
from inboxd.store.pools import Pool, open_pool
from inboxd.store.statements import Statements
from tests.support.databases import Database
from tests.support.verdicts import Violation
from tests.support.worker import Config

SQL = Statements("inboxd")


class ExactlyOnce(Protocol):
    """The fixture `exactly_once` of the tests under faults."""

    async def __call__(self, kind: str, ids: Sequence[int]) -> None:
        """Wait until these rows are settled, and hold that each took effect once."""


class Hasty(Protocol):
    """The fixture `hasty` of the tests under faults."""

    def __call__(self, **sections: dict[str, Any]) -> Config:
        """Settings under which faults take seconds; sections of the test's own win."""


def settings_of(database: Database) -> Settings:
    """The daemon's settings for a test's database."""
    return Settings.model_validate({"dsn": database.dsn})


@asynccontextmanager
async def daemon_session(database: Database) -> AsyncIterator[Connection]:
    """A connection as the daemon's own."""
    connection = await connect(settings_of(database), "test")
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def daemon_pool(database: Database, size: int = 4) -> AsyncIterator[Pool]:
    """A pool as the daemon's own."""
    async with open_pool(settings_of(database), "test", size) as pool:
        yield pool


async def join(connection: Connection, name: str = "test") -> UUID:
    """A worker that joined, as far as the database knows; its id."""
    me = workers.WorkerIdentity(uuid4(), name, "host", 1, "0", (), (), (), "same")
    await workers.join(connection, SQL, me)
    return me.id


async def create_ledger(database: Database) -> None:
    """The table where handlers write one row for each effect, in their own transaction."""
    await database.execute("create table ledger (kind text, row_id bigint, note text)")


async def effects(database: Database, kind: str) -> Counter[int]:
    """How often each row took effect. Raises Violation if one did more than once."""
    rows = await database.fetch("select row_id from ledger where kind = $1", kind)
    found = Counter(row[0] for row in rows)
    if repeated := {row: times for row, times in found.items() if times > 1}:
        raise Violation(f"{kind}s that took effect more than once: {repeated}")
    return found


async def emit(
    where: "Database | Connection", count: int, type_: str = "test.ledger", **payload: object
) -> list[int]:
    """Insert so many events, numbered by `n`, in one statement; their ids."""
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
    """Insert so many commands, numbered by `n`, in one statement; their ids."""
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
    """What is left in a hot table, for an assertion that says what is wrong."""
    return await database.fetch(
        f"select id, type, status, attempts, crashes, errors from inboxd.{table} order by id"
    )


def most_in_a_second(times: Sequence[float]) -> int:
    """How many of these times lie within one second, wherever it begins."""
    return max(sum(start <= time < start + 1 for time in times) for start in times)


@asynccontextmanager
async def no_bounds(database: Database) -> AsyncIterator[None]:
    """What is inserted meanwhile is as rows from before there were bounds: of any size."""
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
