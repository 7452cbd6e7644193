"""The cost of a dedup key for an insert, singly and in bulk, and with millions of stored keys.

    make bench ONLY=dedup            # or: python benchmarks/dedup.py --rows 40000

No worker runs. Each way of writing has a connection of its own; the ways take turns page by page,
so that other load of the machine costs each the same, and the median counts. Events and their keys
are made before the clock starts: how fast a service makes keys is not part of an insert. Growing
keys are order numbers, random keys are UUIDs of version 4. Ten million keys are stored (250 for
each of `--rows`, if that is less), half of each kind, in a schema of their own in the same
database.

Each way is measured at three moments: right after a checkpoint, when the first change of an index
page writes the whole page into the write-ahead log; later, when most pages have been changed since;
and in use, by connections that have used most pages themselves, like those of a service: a page is
new to each process at first. CPU is that of the connection's backend. At the end, random keys are
written in bulk from one checkpoint to the next, and the whole time counts.
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import median
from uuid import uuid4

import asyncpg
from pydantic import SecretStr

from harness import cpu
from harness.bench import Bench, main
from inboxd.client import Inbox, NewEvent
from inboxd.settings import Database
from inboxd.store.migrations import migrate

PAGE = 1_000
ALONE = 50
KEPT = 10_000_000
KEPT_A_ROW = 250
# This many random keys change most pages of the index.
TOUCH = 200_000
TOUCH_A_ROW = 5
MOMENTS = ("checkpoint", "later", "in use")
WHOLE = "bulk, from a checkpoint to the next"
STEP = 1_000_000
CHECKPOINTS = "select num_timed + num_requested from pg_stat_checkpointer"
# The longest wait in seconds until the server has counted a checkpoint.
COUNTED = 30.0
PAYLOAD = {"pad": "x" * 170}
GROWING = "'order-' || lpad(n::text, 12, '0')"
RANDOM = "gen_random_uuid()::text"
# In the order of the index: a step then reads each of its pages once, not once per row.
FILL = """
insert into kept.dedup (key, topic, source, event_id, body_hash)
select {key} collate "C" as key, 'default', 'shop', gen_random_uuid(), n
  from generate_series({first}, {last}) as n order by key
"""
ONE = (
    "insert into {schema}.events (type, payload, source, dedup_key)"
    " values ('bench.noop', $1, 'shop', $2)"
)
_numbers = count(1_000_000_000)


def none() -> None:
    """A row without a key."""


def growing() -> str:
    """An order number as the key."""
    return f"order-{next(_numbers):012}"


def random() -> str:
    """A UUID of version 4 as the key."""
    return str(uuid4())


@dataclass(slots=True)
class Way:
    """A way of writing; for each moment seconds per row of its turns, and the backend's CPU."""

    name: str
    schema: str
    key: Callable[[], str | None]
    bulk: bool
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    server: dict[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The rows that it writes in a turn."""
        return PAGE if self.bulk else ALONE

    async def write(self, connection: asyncpg.Connection) -> float:
        """Write a page in one call, or some rows in one statement each; returns seconds per row."""
        keys = [self.key() for _ in range(self.rows)]
        drafts = [NewEvent("bench.noop", PAYLOAD, source="shop", dedup_key=key) for key in keys]
        insert, payload = ONE.format(schema=self.schema), json.dumps(PAYLOAD)
        started = time.perf_counter()
        if self.bulk:
            await Inbox(self.schema).emit_many(connection, drafts)
        else:
            for key in keys:
                await connection.execute(insert, payload, key)
        return (time.perf_counter() - started) / self.rows

    async def use(self, connection: asyncpg.Connection, rows: int) -> None:
        """Write this many rows in bulk, also if the way is not in bulk."""
        bulk = replace(self, bulk=True)
        for _ in range(0, rows, PAGE):
            await bulk.write(connection)

    def cells(self, moment: str, plain: "Way") -> str:
        """Rows/s of the median turn, its share of the way without a key, and CPU per row."""
        took, beside = median(self.seconds[moment]), median(plain.seconds[moment])
        each = self.server[moment] * 1e6 / (len(self.seconds[moment]) * self.rows)
        return f"{1 / took:,.0f}/s | {beside / took:.0%} | {each:.1f}"


def ways() -> Iterator[Way]:
    """The ways to compare; the first one of each kind has no key."""
    for bulk in (True, False):
        how = "bulk" if bulk else "one INSERT a row"
        yield Way(f"{how}, no key", "inboxd", none, bulk)
        for key in (growing, random):
            yield Way(f"{how}, {key.__name__} keys", "inboxd", key, bulk)
            yield Way(f"{how}, {key.__name__} keys, millions kept", "kept", key, bulk)


async def _fill(bench: Bench, admin: asyncpg.Connection, kept: int) -> None:
    await migrate(Database(dsn=SecretStr(bench.dsn), schema="kept"))
    await admin.execute("set work_mem = '256MB'")
    for first in range(0, kept // 2, STEP):
        last = min(first + STEP, kept // 2) - 1
        for key in (GROWING, RANDOM):
            await admin.execute(FILL.format(key=key, first=first, last=last))
    await admin.execute("vacuum analyze kept.dedup")


async def _measure(
    bench: Bench, admin: asyncpg.Connection, all_: list[Way], moment: str, used: int = 0
) -> None:
    """Measure the turns of all ways on new connections, each of which writes some rows before."""
    producers = [await asyncpg.connect(bench.dsn) for _ in all_]
    for way, producer in zip(all_, producers, strict=True):
        await way.write(producer)
        await way.use(producer, used)
    await admin.execute("truncate inboxd.events, kept.events")
    for way, producer in zip(all_, producers, strict=True):
        way.server[moment] = -cpu.seconds(producer.get_server_pid())
    for _ in range(max(bench.rows // PAGE, 3)):
        for way, producer in zip(all_, producers, strict=True):
            way.seconds[moment].append(await way.write(producer))
    for way, producer in zip(all_, producers, strict=True):
        way.server[moment] += cpu.seconds(producer.get_server_pid())
        await producer.close()


async def _checkpointed(admin: asyncpg.Connection) -> int:
    """Make a checkpoint and wait until the server counts it; returns the number of all."""
    before = await admin.fetchval(CHECKPOINTS)
    await admin.execute("checkpoint")
    async with asyncio.timeout(COUNTED):
        while (now := await admin.fetchval(CHECKPOINTS)) == before:  # noqa: ASYNC110 - no event reports it
            await asyncio.sleep(0.01)
    return int(now)


async def _between_checkpoints(bench: Bench, admin: asyncpg.Connection, used: int) -> str:
    """Compare random keys with and without stored keys, from one checkpoint to the next."""
    both = [way for way in ways() if way.bulk and way.key is random]
    producers = [await asyncpg.connect(bench.dsn) for _ in both]
    for way, producer in zip(both, producers, strict=True):
        await way.use(producer, used)
    before = await _checkpointed(admin)
    pages, seconds = 0, [0.0 for _ in both]
    while not pages or await admin.fetchval(CHECKPOINTS) == before:
        await admin.execute("truncate inboxd.dedup, inboxd.events, kept.events")
        for _ in range(20):
            pages += 1
            for n, (way, producer) in enumerate(zip(both, producers, strict=True)):
                seconds[n] += await way.write(producer)
    for producer in producers:
        await producer.close()
    none_kept, kept = (took / pages * 1e6 for took in seconds)
    return (
        f"{WHOLE}: {pages * PAGE:,} random keys take {none_kept:.1f} µs per row,"
        f" and {kept:.1f} with stored keys: a loss of {1 - none_kept / kept:.0%}."
    )


async def figures(bench: Bench) -> AsyncIterator[str]:
    """A line for each way with all moments; then the result between checkpoints."""
    kept = min(KEPT, bench.rows * KEPT_A_ROW)
    all_ = [way for way in ways() if way.key is none or bench.wants(way.name)]
    async with bench.fresh() as admin:
        started = time.monotonic()
        await _fill(bench, admin, kept)
        filled = time.monotonic() - started
        touched = min(TOUCH, bench.rows * TOUCH_A_ROW)
        await admin.execute("checkpoint")
        await _measure(bench, admin, all_, "checkpoint")
        await admin.execute(FILL.format(key=RANDOM, first=1, last=touched))
        await _measure(bench, admin, all_, "later")
        await _measure(bench, admin, all_, "in use", used=touched)
        size = await admin.fetchval("select pg_relation_size('kept.dedup_pkey') / 1048576")
        plain = {way.bulk: way for way in all_ if way.key is none}
        for way in all_:
            moments = (way.cells(moment, plain[way.bulk]) for moment in MOMENTS)
            yield f"| {way.name} | {' | '.join(moments)} |"
        yield f"\n{kept:,} keys were kept, an index of {size} MB, in {filled:.0f} s."
        if bench.wants(WHOLE):
            yield await _between_checkpoints(bench, admin, touched)


HEADER = (
    "| what | after a checkpoint | vs. no key | CPU µs | later | vs. no key | CPU µs"
    " | in use | vs. no key | CPU µs |\n|---|---|---|---|---|---|---|---|---|---|"
)

if __name__ == "__main__":
    main(figures, __doc__, header=HEADER)
