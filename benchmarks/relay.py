"""How fast a relay publishes a backlog, compared with the plain client of the same broker.

    make bench ONLY=relay            # or: python benchmarks/relay.py --rows 50000

The time is from the moment when the backlog is unlocked until the last event is settled. The plain
client publishes as many bodies of the same 200 bytes, a thousand at a time, each confirmed; it has
no event, no headers and no database. The broker of the first lines confirms at once, which shows
the relay's own cost. The benchmark needs `nats-server` and `rabbitmq-server`, and starts servers of
its own.
"""

import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg

from harness.backlog import PAD, payload, settle_down
from harness.bench import Bench, emptied, main
from harness.brokers import BenchBroker, brokers
from harness.cpu import seconds
from harness.figures import Comparison, Line, Run, Target

BODY = json.dumps({"n": 1, "pad": "x" * 180}).encode()


@dataclass(frozen=True)
class Relayed:
    """A relay's backlog; `key`: SQL for its ordering keys; no `broker`: the null publisher."""

    what: str
    broker: BenchBroker | None
    key: str = "null"

    @property
    def settings(self) -> dict[str, str]:
        """The worker's settings: broker and relay."""
        broker: dict[str, Any] = {"kind": "null"} if self.broker is None else self.broker.settings
        relay = {"broker": "main", "types": ["bench.out"]}
        return {
            "BROKERS": json.dumps({"main": broker}),
            "RELAYS": json.dumps({"out": relay}),
        }

    async def fill(self, connection: asyncpg.Connection, rows: int) -> None:
        """Insert the backlog into the relay's topic."""
        await connection.execute(
            "insert into inboxd.topics (name, mode, source, relay) "
            "values ('out', 'sequential', 'bench', true)"
        )
        await connection.execute(
            "insert into inboxd.events (topic, type, ordering_key, payload) "
            f"select 'out', 'bench.out', {self.key}, {payload(200)} "
            f"from {PAD} as t(pad), generate_series(1, {rows}) n",
            timeout=600,
        )
        await settle_down(connection)

    async def measure(self, bench: Bench) -> Run:
        """Publish the backlog by a worker."""
        if self.broker is not None:
            await self.broker.emptied()
        async with bench.fresh() as connection:
            await self.fill(connection, bench.rows)
            async with bench.held_daemons(1, self.settings) as (daemons, release):
                server, worker = bench.server_seconds(), seconds(daemons[0].pid)
                released = time.monotonic()
                await release()
                ended = await emptied(connection, "inboxd.events")
                server = bench.server_seconds() - server
                worker = seconds(daemons[0].pid) - worker
        if self.broker is not None and (found := await self.broker.count()) != bench.rows:
            raise SystemExit(f"{self.what}: the broker has {found:,} of {bench.rows:,} messages")
        each = 1e6 / bench.rows
        return Run(bench.rows / (ended - released), worker * each, server * each)


async def plain(broker: BenchBroker, bench: Bench) -> Run:
    """Publish by the plain client alone."""
    await broker.emptied()
    async with broker.plain() as publish:
        began, used = time.monotonic(), time.process_time()
        await publish(BODY, bench.rows)
        took, used = time.monotonic() - began, time.process_time() - used
    return Run(bench.rows / took, used * 1e6 / bench.rows)


def comparisons(bench: Bench, both: dict[str, BenchBroker]) -> Iterator[Comparison]:
    """The relay alone, and the relay to each broker."""
    for key, what in (("null", "no keys"), ("'k' || n % 1000", "1,000 keys")):
        alone = Relayed(f"confirmed at once, {what}", None, key)
        yield Comparison(alone.what, partial(alone.measure, bench))
    for name, broker in both.items():
        for key, what in (("null", "no keys"), ("'k' || n % 1000", "1,000 keys")):
            each = Relayed(f"to {name}, {what}", broker, key)
            beside = partial(plain, broker, bench)
            measure = partial(each.measure, bench)
            yield Comparison(each.what, measure, Target(share=0.7), "plain client", beside)


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for each comparison."""
    with brokers(bench.folder) as both:
        async for line in bench.compare(comparisons(bench, both)):
            yield line


if __name__ == "__main__":
    main(figures, __doc__)
