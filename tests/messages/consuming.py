"""Whole workers that read messages: settings, stored numbers, and commits that take long.

await start_worker(consuming(broker, {"nats_stream": "RESULTS"}))
assert await stored(database, 3) == [1, 2, 3]
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.support import Config, Database, eventually
from tests.support.locks import lock_awaited

# Long leases: a worker must not count as dead while the machine stands still for some seconds.
_WORKER = {
    "lease": "60s",
    "heartbeat_interval": "500ms",
    "plugins": ["testplugin"],
    "poll_interval": "1s",
}


def consuming(
    broker: Mapping[str, Any],
    source: Mapping[str, Any],
    others: Mapping[str, Mapping[str, Any]] | None = None,
) -> Config:
    """The settings of a worker that reads the source `results`; others: more sources, by name.

    A handler settles the events at once, so an event that is stored twice shows as two.
    """
    given = {"broker": "main", "type": "test.noop"}
    sources = {"results": source, **(others or {})}
    return {
        "worker": _WORKER,
        "brokers": {"main": broker},
        "inbound": {"messages": {each: {**given, **sources[each]} for each in sources}},
    }


def mortal(config: Config) -> Config:
    """The same settings with short leases, for tests that kill or stop workers."""
    return {**config, "worker": {**config["worker"], "lease": "3s"}}


async def numbers(database: Database) -> list[int]:
    """The numbers in all events, settled or not."""
    rows = await database.fetch(
        "select (payload ->> 'n')::int as n from inboxd.events where status <> 'failed'"
        " union all select (payload ->> 'n')::int from inboxd.events_history order by 1"
    )
    return [row["n"] for row in rows]


async def forget(database: Database, above: int = 0) -> None:
    """Delete events with larger numbers, as a database from a backup lacks them."""
    for table in ("events", "events_history"):
        await database.execute(
            f"delete from inboxd.{table} where (payload ->> 'n')::int > $1", above
        )


def body(number: int) -> bytes:
    return b'{"n": %d}' % number


async def stored(database: Database, count: int) -> list[int]:
    """Wait until there are `count` events, settled or not; their numbers, sorted."""

    async def find() -> list[int]:
        found = await numbers(database)
        return found if len(found) >= count else []

    return await eventually(find)


async def settled(database: Database) -> None:
    """Wait until no event is unsettled."""

    async def find() -> bool:
        return not await database.fetchval("select count(*) from inboxd.events")

    await eventually(find)


async def is_told(database: Database, *states: str) -> None:
    """Wait until the workers report these states of sources."""

    async def told() -> bool:
        rows = await database.fetch("select state from inboxd.message_readers order by state")
        return [row["state"] for row in rows] == [*states]

    await eventually(told)


@asynccontextmanager
async def slow_commit(database: Database) -> AsyncIterator[None]:
    """Pages that are stored meanwhile commit at the end, and not before."""
    async with database.connect() as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("select from inboxd.stream_positions for update")
        yield
        await transaction.rollback()


async def being_stored(database: Database) -> None:
    """Wait until a page waits for its commit."""
    await lock_awaited(database, query="%store_messages%")
