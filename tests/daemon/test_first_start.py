"""Events that were written before the first worker: each is handled once, in its place (ADR 18)."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import anyio
import asyncpg
import pytest

from inboxd_testplugin.listed import TABLES
from tests.daemon.inbox import Inbox
from tests.support import Database, StartWorker, eventually
from tests.support.order import TRAIL, settled

pytestmark = pytest.mark.anyio

_WRITE = (
    "insert into inboxd.events (type, topic, payload) "
    "select $1, $2, p::jsonb from unnest($3::text[]) with ordinality as t(p, n) order by n"
)
_TOLD = (
    "select e.topic, e.ordering_key as key, (e.payload ->> 'n')::int as n, e.event_id"
    " from inboxd.events_history e order by e.topic, e.finished_at, e.id"
)


@pytest.fixture
async def virgin(own: Inbox) -> Database:
    """A database that no worker has seen, with the handlers' tables."""
    await own.database.execute(TRAIL + TABLES)
    return own.database


async def write(
    where: "Database | asyncpg.Connection",
    type_: str,
    numbers: Sequence[int],
    keys: int = 7,
    topic: str | None = None,
) -> None:
    """An event for each number, one of so many keys; in one statement."""
    payloads = [json.dumps({"key": f"k{n % keys}", "n": n}) for n in numbers]
    await where.execute(_WRITE, type_, topic, payloads)


async def steps(database: Database, table: str = "trail") -> dict[str, list[int]]:
    """The numbers of each key's events, in the order in which they were handled."""
    ids = {"trail": "array[t.event]", "lists": "t.ids"}[table]
    order = {"trail": "t.place", "lists": "t.id"}[table]
    rows = await database.fetch(
        f"select e.ordering_key as key, (e.payload ->> 'n')::int as n from {table} t,"
        f" unnest({ids}) with ordinality as i(id, n)"
        f" join inboxd.events_history e on e.id = i.id order by {order}, i.n"
    )
    found = defaultdict(list)
    for row in rows:
        found[row["key"]].append(row["n"])
    return dict(found)


def expected(numbers: Sequence[int], keys: int = 7) -> dict[str, list[int]]:
    """What `steps` is to say of `write`."""
    found = defaultdict(list)
    for n in numbers:
        found[f"k{n % keys}"].append(n)
    return dict(found)


async def dead(database: Database) -> list[Any]:
    return await database.fetch("select * from inboxd.events where status = 'failed'")


async def test_a_sequential_topic(virgin: Database, start_worker: StartWorker) -> None:
    await write(virgin, "test.turn", range(5_000), keys=50)
    await start_worker()
    await settled(virgin, 5_000)
    await write(virgin, "test.turn", range(5_000, 5_100), keys=50)
    await settled(virgin, 5_100)
    assert await steps(virgin) == expected(range(5_100), keys=50)
    assert await dead(virgin) == []


async def test_a_batch_topic(virgin: Database, start_worker: StartWorker) -> None:
    await write(virgin, "listed.counted", range(5_000), keys=10)
    await start_worker()
    await settled(virgin, 5_000)
    assert await steps(virgin, "lists") == expected(range(5_000), keys=10)
    assert set(await sizes(virgin)) == {5}


async def sizes(database: Database) -> list[int]:
    return [row["size"] for row in await database.fetch("select size from lists")]
