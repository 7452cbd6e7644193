"""What a dedup key costs an insert, by itself and in bulk, and beside millions of keys kept.

    make bench ONLY=dedup            # or: python benchmarks/dedup.py --rows 100000

One connection of asyncpg and no worker. All ways in turns, page by page, so that a checkpoint or a
neighbour costs each of them the same; of each the median. A hundred times `--rows` keys are kept
(by default ten million), in a schema of their own in the same database. Keys that grow are order
numbers, random ones UUIDs of version 4.
"""

import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from statistics import median
from uuid import uuid4

import asyncpg
from pydantic import SecretStr

from harness.bench import Bench, main
from inboxd.client import Inbox, NewEvent
from inboxd.settings import Database
from inboxd.store.migrations import migrate

PAGE = 1_000
ALONE = 50
KEPT = 100
STEP = 500_000
PAYLOAD = {"pad": "x" * 170}
FILL = """
insert into {schema}.dedup (topic, source, key, event_id, body_hash)
select 'default', 'shop', {key}, gen_random_uuid(), n from generate_series({first}, {last}) as n
"""
ONE = (
    "insert into {schema}.events (type, payload, source, dedup_key)"
    " values ('bench.noop', $1, 'shop', $2)"
)
_numbers = count(1_000_000_000)

Keys = Callable[[], str | None]
Way = tuple[str, str, Keys, bool]


def none() -> None:
    """No key at all."""


def growing() -> str:
    """An order number."""
    return f"order-{next(_numbers):012}"


def random() -> str:
    """A UUID of version 4."""
    return str(uuid4())


def ways() -> Iterator[Way]:
    """What is compared: its name, the schema, the keys, whether in bulk."""
    for bulk in (True, False):
        how = "bulk" if bulk else "one INSERT a row"
        yield f"{how}, no key", "inboxd", none, bulk
        for keys in (growing, random):
            yield f"{how}, {keys.__name__} keys", "inboxd", keys, bulk
            yield f"{how}, {keys.__name__} keys, millions kept", "kept", keys, bulk


async def _bulk(connection: asyncpg.Connection, schema: str, keys: Keys) -> None:
    drafts = [NewEvent("bench.noop", PAYLOAD, source="shop", dedup_key=keys()) for _ in range(PAGE)]
    await Inbox(schema).emit_many(connection, drafts)


async def _alone(connection: asyncpg.Connection, schema: str, keys: Keys) -> None:
    insert, payload = ONE.format(schema=schema), json.dumps(PAYLOAD)
    for _ in range(ALONE):
        await connection.execute(insert, payload, keys())


async def _fill(bench: Bench, admin: asyncpg.Connection) -> None:
    await migrate(Database(dsn=SecretStr(bench.dsn), schema="kept"))
    each = bench.rows * KEPT // 2
    for first in range(0, each, STEP):
        bounds = {"schema": "kept", "first": first, "last": min(first + STEP, each) - 1}
        await admin.execute(FILL.format(key="'order-' || lpad(n::text, 12, '0')", **bounds))
        await admin.execute(FILL.format(key="gen_random_uuid()::text", **bounds))
    await admin.execute("vacuum analyze kept.dedup")


async def figures(bench: Bench) -> AsyncIterator[str]:
    """A line for each way: rows/s of the median page, and its share of the way without a key."""
    async with bench.fresh() as admin:
        await _fill(bench, admin)
        producer = await asyncpg.connect(bench.dsn)
        await admin.execute("checkpoint")
        seconds: dict[str, list[float]] = defaultdict(list)
        for turn in range(max(bench.rows // PAGE, 3)):
            if turn % 50 == 0:
                await admin.execute("truncate inboxd.events, kept.events")
            for name, schema, keys, bulk in ways():
                write: Callable[..., Awaitable[None]] = _bulk if bulk else _alone
                started = time.perf_counter()
                await write(producer, schema, keys)
                seconds[name].append((time.perf_counter() - started) / (PAGE if bulk else ALONE))
        await producer.close()
    for name, _, _, bulk in ways():
        plain = median(seconds["bulk, no key" if bulk else "one INSERT a row, no key"])
        took = median(seconds[name])
        yield f"| {name} | {1 / took:,.0f}/s | {plain / took:.0%} |"


HEADER = "| what | measured | of the way without a key |\n|---|---|---|"

if __name__ == "__main__":
    main(figures, __doc__, header=HEADER)
