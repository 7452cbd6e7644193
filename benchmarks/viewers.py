"""The cost of fifty viewers of the screens for a worker and its claims.

    make bench ONLY=viewers

A worker gets 2,000 events and 2,000 commands per second, evenly; --rows of both together are a
stretch (25 seconds by default). Stretches without viewers take turns with stretches of fifty
viewers. Each viewer has one of four pages open, and asks every two seconds whether it has changed,
as a browser does; it always has. In one comparison the screens are a process of their own (`inboxd
admin`), in the other the worker serves them.

Rows per CPU second are the rows that the worker handled, divided by the CPU seconds of its process:
the viewers' cost lowers them. Rows per second of claiming use the worker's own metric of the time
of claims. The server's CPU microseconds per row include the statements of the viewers.
Known limit: viewers, feeder and screens share the machine's cores with worker and server.
"""

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import asyncpg
import httpx

from harness.bench import Bench, Daemon, main, patiently
from harness.cpu import seconds
from harness.figures import Line, Run, Target
from inboxd.embedded import free_port

VIEWERS = 50
PAGES = ("/", "/events", "/failures", "/queues")
POLL = 2.0
# Rows per second of both tables together, and seconds between inserts.
RATE, EVERY = 4_000, 0.05
_FEED = """
with commands as (
    insert into inboxd.commands (type, queue, payload)
    select 'bench.noop', 'default', '{"n": 1, "pad": ""}' from generate_series(1, $1::int)
)
insert into inboxd.events (type, payload)
select 'bench.noop', '{"n": 1, "pad": ""}' from generate_series(1, $1::int)
"""
_METRIC = "inboxd_claim_duration_seconds"


@dataclass(frozen=True, slots=True)
class Stretch:
    """The work of some seconds, its cost, and the number of answers that viewers got meanwhile."""

    rows: int
    took: float
    worker: float
    server: float
    claiming: float
    answers: int

    def per_cpu_second(self) -> Run:
        """Rows for each CPU second of the worker."""
        each = 1e6 / self.rows
        return Run(self.rows / max(self.worker, 0.01), self.worker * each, self.server * each)

    def per_second_of_claiming(self) -> Run:
        """Rows for each second that claims took."""
        return Run(self.rows / max(self.claiming, 1e-6))


class Viewers:
    """Viewers who have the pages open."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self.answers = 0

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Have the viewers look during the block, spread evenly in time."""
        limits = httpx.Limits(max_connections=VIEWERS)
        async with httpx.AsyncClient(base_url=self._url, limits=limits) as client:
            polls = [
                asyncio.create_task(self._look(client, PAGES[n % len(PAGES)], n * POLL / VIEWERS))
                for n in range(VIEWERS)
            ]
            try:
                yield
            finally:
                for poll in polls:
                    poll.cancel()
                ended = await asyncio.gather(*polls, return_exceptions=True)
                for error in ended:
                    if isinstance(error, Exception):
                        raise error

    async def _look(self, client: httpx.AsyncClient, path: str, after: float) -> None:
        await asyncio.sleep(after)
        answer = await client.get(path)
        while True:
            answer.raise_for_status()
            self.answers += 1
            await asyncio.sleep(POLL)
            answer = await client.get(path, headers={"x-revision": answer.headers["x-revision"]})


async def measure(bench: Bench, daemon: Daemon, viewers: Viewers | None) -> Stretch:
    """Measure one stretch, with viewers or without."""
    if viewers is None:
        return await _stretch(bench, daemon, None)
    async with viewers.looking():
        return await _stretch(bench, daemon, viewers)


async def _stretch(bench: Bench, daemon: Daemon, viewers: Viewers | None) -> Stretch:
    """Feed the worker and measure it, from the first poll of each viewer on."""
    producer = await asyncpg.connect(bench.dsn)
    await _feed(producer, int(RATE * POLL))  # by then every viewer has opened its page
    begun, calls = time.monotonic(), daemon.marks.calls
    worker, server = seconds(daemon.pid), bench.server_seconds()
    claiming, answers = await _claiming(daemon), viewers.answers if viewers else 0
    await _feed(producer, bench.rows)
    stretch = Stretch(
        rows=daemon.marks.calls - calls,
        took=time.monotonic() - begun,
        worker=seconds(daemon.pid) - worker,
        server=bench.server_seconds() - server,
        claiming=await _claiming(daemon) - claiming,
        answers=(viewers.answers if viewers else 0) - answers,
    )
    await producer.close()
    return stretch


async def _feed(producer: asyncpg.Connection, rows: int) -> None:
    """Insert `rows` evenly, half of them events."""
    page = int(RATE * EVERY / 2)
    due = time.monotonic()
    for _ in range(max(1, rows // (2 * page))):
        await producer.execute(_FEED, page)
        due += EVERY
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _claiming(daemon: Daemon) -> float:
    """Seconds that claims of a worker took so far."""
    page = f"{daemon.url}/metrics?name[]={_METRIC}_sum"
    answer = await asyncio.to_thread(urllib.request.urlopen, page)
    lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{_METRIC}_sum"))


@contextmanager
def screens(bench: Bench, port: int) -> Iterator[None]:
    """Run `inboxd admin` as a user runs it."""
    environment = {
        **os.environ,
        "INBOXD_DATABASE__DSN": bench.dsn,
        "INBOXD_LOG__LEVEL": "warning",
        "INBOXD_ADMIN__PORT": str(port),
    }
    process = subprocess.Popen([sys.executable, "-m", "inboxd", "admin"], env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


async def _served(port: int) -> None:
    """Wait until the screens answer."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        async for _ in patiently(0.05):
            try:
                (await client.get("/")).raise_for_status()
            except httpx.HTTPError:
                continue
            return


async def in_a_process(bench: Bench) -> tuple[list[Stretch], list[Stretch]]:
    """Stretches with viewers and without, in turns; the screens are a process of their own."""
    port = free_port()
    async with bench.fresh():
        with bench.daemon() as daemon, screens(bench, port):
            return await _in_turn(bench, daemon, port)


async def in_the_worker(bench: Bench) -> tuple[list[Stretch], list[Stretch]]:
    """Stretches with viewers and without, in turns; the worker serves the screens."""
    port = free_port()
    async with bench.fresh():
        with bench.daemon({"ADMIN__ENABLED": "true", "ADMIN__PORT": str(port)}) as daemon:
            return await _in_turn(bench, daemon, port)


async def _in_turn(bench: Bench, daemon: Daemon, port: int) -> tuple[list[Stretch], list[Stretch]]:
    await daemon.ready()
    await _served(port)
    looked, alone = list[Stretch](), list[Stretch]()
    for turn in range(bench.repeat):
        # Every other turn is reversed, so that costs that grow with time are equal on both sides.
        for viewed in (turn % 2 == 0, turn % 2 == 1):
            viewers = Viewers(port) if viewed else None
            (looked if viewed else alone).append(await measure(bench, daemon, viewers))
    return looked, alone


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """The worker's CPU, its claims, and the answers that viewers got."""
    for what, way in (("of inboxd admin", in_a_process), ("of the worker", in_the_worker)):
        if not bench.wants(f"{VIEWERS} viewers {what}"):
            continue
        looked, alone = await way(bench)
        yield Line(
            f"{VIEWERS} viewers {what}: rows per CPU second of the worker",
            [each.per_cpu_second() for each in looked],
            "no viewers",
            [each.per_cpu_second() for each in alone],
            Target(share=0.97),
        )
        yield Line(
            f"{VIEWERS} viewers {what}: rows per second of claiming",
            [each.per_second_of_claiming() for each in looked],
            "no viewers",
            [each.per_second_of_claiming() for each in alone],
            Target(share=0.99),
        )
        yield Line(f"{VIEWERS} viewers {what}: answers", [Run(s.answers / s.took) for s in looked])


if __name__ == "__main__":
    main(figures, __doc__)
