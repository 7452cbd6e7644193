"""How fast chunks of 1,000 events are drained, compared with raw SQL and with pg-boss.

    make bench ONLY=chunks
    INBOXD_BENCH_PGBOSS=folder make bench ONLY=chunks     # where `npm install pg-boss` was run

A handler that does nothing is called with each chunk; pg-boss calls its handler with an array of
1,000 jobs. The work is not the same: inboxd also decodes each event into a pydantic model, and
moves it into a history.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import asyncpg
from drain import Drain

from harness.backlog import PAD, payload
from harness.bench import Bench, main
from harness.figures import Comparison, Line, Run, Target
from inboxd.store import events, lines
from inboxd.store.session import Session

TOPIC = "bench-chunks"
PEER = os.environ.get("INBOXD_BENCH_PGBOSS")
SIZE = 1_000


@dataclass(frozen=True)
class Chunks(Drain):
    """A backlog of a batch topic; `key` is SQL for the chunk's ordering key, from `n`."""

    async def fill(self, connection: asyncpg.Connection) -> None:
        """Insert the backlog, before a worker has declared the topic."""
        await connection.execute(
            "insert into inboxd.topics (name, mode, source) values ($1, 'batch', 'benchmark')",
            TOPIC,
        )
        await connection.execute(
            "insert into inboxd.events (topic, type, ordering_key, payload) "
            f"select '{TOPIC}', 'bench.chunked', {self.key}, {payload(self.size)} "
            f"from {PAD} as t(pad), generate_series(1, {self.rows}) n",
            timeout=600,
        )
        await connection.execute("vacuum analyze inboxd.events, inboxd.bodies")
        await connection.execute("checkpoint")


async def raw_chunks(drain: Drain, session: Session, _bench: Bench) -> None:
    """The statements that take one chunk after the other, without a processor."""
    me, done, after = uuid4(), 0, 0
    bucket = await session.connection.fetchval("select inboxd.bucket_of($1, '')", TOPIC)
    while done < drain.rows:
        async with session.transaction():
            await lines.try_buckets(session, [(TOPIC, bucket)])
            stretch = lines.IdRange(TOPIC, bucket, after, 2**62)
            page = await lines.claim_arrivals(session, [stretch], SIZE)
            await events.settle(session, [(row["id"], 0.0) for row in page], me)
        after = page[-1]["id"]
        done += len(page)


async def measure_peer(rows: int, bench: Bench) -> Run:
    """Drain the same number of jobs with pg-boss."""
    await bench.recreate()
    script = Path(__file__).parent / "harness" / "pgboss.mjs"
    ran = await asyncio.create_subprocess_exec(
        "node", script, bench.dsn, str(rows), cwd=PEER, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await ran.communicate()
    return Run(float(said.decode().split()[-1]), None, None)


def comparisons(bench: Bench) -> Iterator[Comparison]:
    """Chunks of one key, chunks of many keys, and pg-boss."""
    one = Chunks("chunks of 1,000", "events", bench.rows, key="''")
    keyed = Chunks("chunks of 1,000, of 20 keys", "events", bench.rows, key="'k' || n % 20")
    raw = partial(one.measure_raw, raw_chunks, bench)
    yield Comparison(one.what, partial(one.measure, bench), Target(share=0.7), "raw SQL", raw)
    yield Comparison(
        keyed.what, partial(keyed.measure, bench), None, "one key", partial(one.measure, bench)
    )
    if PEER:
        other = partial(measure_peer, bench.rows, bench)
        what = "chunks of 1,000, beside pg-boss"
        yield Comparison(what, partial(one.measure, bench), Target(share=1.0), "pg-boss", other)


def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for each comparison."""
    return bench.compare(comparisons(bench))


if __name__ == "__main__":
    main(figures, __doc__)
