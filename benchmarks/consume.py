"""How fast a source stores a broker's messages, compared with a plain client that emits the rows.

    make bench ONLY=consume          # or: python benchmarks/consume.py --rows 50000

The time is from the first page's statement until the commit of the last page. The plain client
consumes as many bodies of the same 200 bytes, a thousand at a time, emits them unchanged in bulk
(`emit_event_arrays`), and acknowledges them; it stores no positions, decodes nothing, and handles
one page at a time. The benchmark needs `nats-server` and `rabbitmq-server`, and starts servers of
its own.
"""

import json
import time
from collections.abc import AsyncIterator
from functools import partial

import asyncpg

from harness.bench import Bench, main, patiently
from harness.brokers import BenchBroker, brokers
from harness.cpu import seconds
from harness.figures import Comparison, Line, Run, Target

BODY = json.dumps({"n": 1, "pad": "x" * 180}).encode()
EMIT = (
    "select count(*) from inboxd.emit_event_arrays($1::text[], $2::text[]::jsonb[],"
    " ordering_keys => $3::text[])"
)


async def _filled(broker: BenchBroker, rows: int) -> None:
    await broker.emptied()
    async with broker.plain() as publish:
        await publish(BODY, rows)


async def by_source(broker: BenchBroker, bench: Bench) -> Run:
    """How fast a worker's source stores."""
    await _filled(broker, bench.rows)
    source = {"broker": "main", "type": "bench.in", **broker.source}
    settings = {
        "BROKERS": json.dumps({"main": broker.settings}),
        "INBOUND__MESSAGES": json.dumps({"bench": source}),
        "WAKEUPS__MODE": "off",  # no handler takes these events, so no worker needs a notification
    }
    async with bench.fresh() as connection:
        await connection.execute(
            "insert into inboxd.controls (kind, name, actor) values ('source', 'bench', 'bench')"
        )
        with bench.daemon(settings) as daemon:
            await daemon.ready()
            server, worker = bench.server_seconds(), seconds(daemon.pid)
            await connection.execute("delete from inboxd.controls")
            await _stored(connection, bench.rows)
            server = bench.server_seconds() - server
            worker = seconds(daemon.pid) - worker
            took = await connection.fetchval(
                "select extract(epoch from (select max(stored_at) from inboxd.stream_positions)"
                " - min(created_at))::float8 from inboxd.events"
            )
    each = 1e6 / bench.rows
    return Run(bench.rows / took, worker * each, server * each)


async def _stored(connection: asyncpg.Connection, rows: int) -> None:
    async for _ in patiently(0.05):
        # Reading the sequence costs nothing; it is ahead of the commit.
        drawn = "select last_value from inboxd.events_id_seq where is_called"
        if (await connection.fetchval(drawn) or 0) < rows:
            continue
        if await connection.fetchval("select count(*) from inboxd.events") >= rows:
            return


async def plain(broker: BenchBroker, bench: Bench) -> Run:
    """Measure the plain client, which emits in bulk."""
    await _filled(broker, bench.rows)
    async with bench.fresh():
        connection = await bench.connect()

        async def store(bodies: list[bytes]) -> None:
            texts = [body.decode() for body in bodies]
            types, keys = ["bench.in"] * len(texts), ["k"] * len(texts)
            await connection.execute(EMIT, types, texts, keys)

        server, used = bench.server_seconds(), time.process_time()
        began = time.monotonic()
        await broker.consume(bench.rows, store)
        took = time.monotonic() - began
        used = time.process_time() - used
        server = bench.server_seconds() - server
        await connection.close()
    each = 1e6 / bench.rows
    return Run(bench.rows / took, used * each, server * each)


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for each broker."""
    with brokers(bench.folder) as both:
        async for line in bench.compare(
            Comparison(
                f"from {name}",
                partial(by_source, broker, bench),
                Target(share=0.7),
                "plain client",
                partial(plain, broker, bench),
            )
            for name, broker in both.items()
        ):
            yield line


if __name__ == "__main__":
    main(figures, __doc__)
