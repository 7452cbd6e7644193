"""What tests of whole workers that read messages share: settings, what is stored, slow commits."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.support import Config, Database, eventually
from tests.support.locks import lock_awaited

# Nobody may die while a machine stands still for some seconds.
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
    """The settings of a worker that reads the source `results`; others: more of them, by name.

    What they become is handled at once, and settled: what is stored twice shows.
    """
    given = {"broker": "main", "type": "test.noop"}
    sources = {"results": source, **(others or {})}
    return {
        "worker": _WORKER,
        "brokers": {"main": broker},
        "inbound": {"messages": {each: {**given, **sources[each]} for each in sources}},
    }


def mortal(config: Config) -> Config:
    """The same, and a death is noticed within seconds: for tests that kill or stop workers."""
    return {**config, "worker": {**config["worker"], "lease": "3s"}}


async def numbers(database: Database) -> list[int]:
    """The numbers in the events that there are or were."""
    rows = await database.fetch(
        "select (payload ->> 'n')::int as n from inboxd.events where status <> 'failed'"
        " union all select (payload ->> 'n')::int from inboxd.events_history order by 1"
    )
    return [row["n"] for row in rows]


async def forget(database: Database, above: int = 0) -> None:
    """Forget events with larger numbers, as a database from a backup has."""
    for table in ("events", "events_history"):
        await database.execute(
            f"delete from inboxd.{table} where (payload ->> 'n')::int > $1", above
        )


def body(number: int) -> bytes:
    """Of a message."""
    return b'{"n": %d}' % number


async def stored(database: Database, count: int) -> list[int]:
    """Wait until so many events are there, or were; their numbers, sorted."""

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
    """Wait until the workers tell these states of sources."""

    async def told() -> bool:
        rows = await database.fetch("select state from inboxd.message_readers order by state")
        return [row["state"] for row in rows] == [*states]

    await eventually(told)


@asynccontextmanager
async def slow_commit(database: Database) -> AsyncIterator[None]:
    """A page that is stored meanwhile is committed at the end, and not before."""
    async with database.connect() as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("select from inboxd.stream_positions for update")
        yield
        await transaction.rollback()


async def being_stored(database: Database) -> None:
    """Wait until a page waits for its commit."""
    await lock_awaited(database, query="%store_messages%")
