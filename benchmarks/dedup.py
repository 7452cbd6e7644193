"""What a dedup key costs an insert, by itself and in bulk, and beside millions of keys kept.

    make bench ONLY=dedup            # or: python benchmarks/dedup.py --rows 40000

No worker runs. Each way has a connection of its own; they take turns page by page, so that a
neighbour costs each of them the same, and of each the median counts. Events, and with them their
keys, are made before the clock starts: how quickly a service makes its keys is not the insert's.
Keys that grow are order numbers, random ones UUIDs of version 4. Ten million are kept (250 for each
of `--rows`, if that is less), half of each kind, in a schema of their own in the same database. All
is measured at three moments: right after a checkpoint, when the first touch of each page of the
index writes it whole into the write-ahead log; later, when most pages have been touched; and in
use, by connections that have touched most pages themselves, as a service's have: until then each
page is new to the process as well. CPU is that of the connection's backend. At last random keys are
written in bulk from one checkpoint to the next, and all of that time counts.
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
# How many random keys touch most pages of the index.
TOUCH = 200_000
TOUCH_A_ROW = 5
MOMENTS = ("checkpoint", "later", "in use")
WHOLE = "bulk, from a checkpoint to the next"
STEP = 1_000_000
CHECKPOINTS = "select num_timed + num_requested from pg_stat_checkpointer"
# Seconds until the server has counted a checkpoint, at most.
COUNTED = 30.0
PAYLOAD = {"pad": "x" * 170}
GROWING = "'order-' || lpad(n::text, 12, '0')"
RANDOM = "gen_random_uuid()::text"
# In the index's order: a step finds each of its pages once, instead of a row at a time.
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
    """No key at all."""


def growing() -> str:
    """An order number."""
    return f"order-{next(_numbers):012}"


def random() -> str:
    """A UUID of version 4."""
    return str(uuid4())


@dataclass(slots=True)
class Way:
    """One way in; for each moment the seconds a row of its turns, and the backend's CPU in all."""

    name: str
    schema: str
    key: Callable[[], str | None]
    bulk: bool
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    server: dict[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many it writes in a turn."""
        return PAGE if self.bulk else ALONE

    async def write(self, connection: asyncpg.Connection) -> float:
        """A page in one call, or some rows in a statement each; the seconds a row."""
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
        """Write so many rows in bulk, whichever way it is."""
        bulk = replace(self, bulk=True)
        for _ in range(0, rows, PAGE):
            await bulk.write(connection)

    def cells(self, moment: str, plain: "Way") -> str:
        """Rows/s of the median turn, its share of the way without a key, CPU a row."""
        took, beside = median(self.seconds[moment]), median(plain.seconds[moment])
        each = self.server[moment] * 1e6 / (len(self.seconds[moment]) * self.rows)
        return f"{1 / took:,.0f}/s | {beside / took:.0%} | {each:.1f}"


def ways() -> Iterator[Way]:
    """What is compared; the first of each kind is the one without a key."""
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
    """The turns of all ways, on new connections; each writes some rows before it is looked at."""
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
    """The number of checkpoints after one more; the server counts it some time after its end."""
    before = await admin.fetchval(CHECKPOINTS)
    await admin.execute("checkpoint")
    async with asyncio.timeout(COUNTED):
        while (now := await admin.fetchval(CHECKPOINTS)) == before:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
    return int(now)


async def _between_checkpoints(bench: Bench, admin: asyncpg.Connection, used: int) -> str:
    """What random keys lose beside those kept in all the time from a checkpoint to the next."""
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
        f"{WHOLE}: {pages * PAGE:,} random keys take {none_kept:.1f} µs a row,"
        f" and {kept:.1f} beside those kept; they lose {1 - none_kept / kept:.0%}."
    )


async def figures(bench: Bench) -> AsyncIterator[str]:
    """A line for each way, at all moments; then what a whole time between checkpoints gave."""
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
    "| what | after a checkpoint | of no key | CPU µs | later | of no key | CPU µs"
    " | in use | of no key | CPU µs |\n|---|---|---|---|---|---|---|---|---|---|"
)

if __name__ == "__main__":
    main(figures, __doc__, header=HEADER)
