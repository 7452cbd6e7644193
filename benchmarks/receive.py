"""How fast webhooks are received, compared with a raw ASGI endpoint under the same uvicorn.

    make bench ONLY=receive          # needs wrk: apt install wrk

A request is signed by Standard Webhooks and has a result of about 130 bytes. It becomes a row of
`receipts` and an event of a sequential topic, for one of 1,000 matches, before it is answered 202.
wrk sends over 640 connections (arrays: over 32) as fast as it can; requests are made and signed
beforehand, and each is sent once. At the end the receipts must match the accepted requests.

One process: the receiver, or the raw endpoint, has the first core; PostgreSQL and the generator
share the second. Two processes: all of them share both cores. CPU is that of receiver and server.
With arrays of 100, rates and CPU are per result. Latencies are those of an open loop, from the time
when a request was due, at half of the rate.

`--rows` limits the requests of the longest run, at about 12,500 requests per second.
"""

import asyncio
import base64
import os
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from harness import cpu, webhooks
from harness.bench import Bench, main, patiently
from harness.figures import Line, Run, Target, in_turns
from inboxd.embedded import free_port

CORES = sorted(os.sched_getaffinity(0))[:2]
CONFIG = """
[database]
dsn = "{dsn}"
[http]
port = {health}
[log]
level = "warning"
[inbound.http]
port = {port}
[inbound.webhooks.bench]
keys = [{{ secret = "whsec_{secret}" }}]
type = "result.received"
topics = ["results"]
ordering_key = "pointer:/matchExternalId"
"""
ARRAY = 'items = ""\ndedup_key = "pointer:/providerEventId"\n'
TOPIC = "insert into inboxd.topics (name, mode, source) values ('results', 'sequential', 'bench')"


@dataclass(frozen=True, slots=True)
class Case:
    """The kind of request, and the number of receiver processes."""

    items: int | None
    processes: int

    @property
    def what(self) -> str:
        """The beginning of the names of its lines."""
        bodies = "single bodies" if self.items is None else f"arrays of {self.items}"
        return f"{bodies}, {'one process' if self.processes == 1 else 'two processes'}"

    @property
    def connections(self) -> int:
        """Enough connections that the server never waits for the generator."""
        return 640 if self.items is None else 32

    @property
    def cores(self) -> tuple[Sequence[int], Sequence[int]]:
        """The cores of the receiver, and the cores of server and generator."""
        return (CORES[:1], CORES[-1:]) if self.processes == 1 else (CORES, CORES)


CASES = [Case(items, processes) for processes in (1, 2) for items in (None, 100)]


@dataclass(slots=True)
class Receiving:
    """Both sides of a case: the receiver and the raw endpoint."""

    bench: Bench
    case: Case
    slowest: list[Run] = field(default_factory=list)
    # More settings, as TOML.
    settings: str = ""

    @property
    def seconds(self) -> int:
        """The length of one measurement."""
        return max(1, min(8, self.bench.rows // 12_500))

    @property
    def _enough(self) -> int:
        """More requests than either side takes per second, so that none is sent twice."""
        return 40_000 if self.case.items is None else 1_500

    async def receiver(self) -> Run:
        """Results per second by inboxd, as fast as wrk can send them."""
        async with self.bench.fresh() as connection, self._inboxd(connection) as (pid, port):
            warm = await self._warm(port)
            closed, run = await self._run(pid, port)
            await _verify(connection, warm.accepted + closed.accepted, self.case)
        self.slowest.append(Run(closed.slowest_second * (self.case.items or 1)))
        return run

    async def raw(self) -> Run:
        """Results per second by an endpoint that only reads."""
        port = free_port()
        script = webhooks.HERE / "raw_asgi.py"
        command = [sys.executable, str(script), str(port), str(self.case.processes)]
        async with self._started(command, f"http://127.0.0.1:{port}/") as pid:
            await self._warm(port)
            return (await self._run(pid, port))[1]

    async def latency(self, rate: float) -> dict[str, float]:
        """Milliseconds by inboxd, at a given rate of requests."""
        async with self.bench.fresh() as connection, self._inboxd(connection) as (_, port):
            await self._warm(port)
            requests = self._requests(int(rate * self.seconds))
            others = self.case.cores[1]
            return await webhooks.open_loop(port, requests, rate, self.seconds, others)

    async def _run(self, pid: int, port: int) -> tuple[webhooks.Closed, Run]:
        requests = self._requests(self._enough * self.seconds)
        answering, server = cpu.seconds(pid), self._server_seconds()
        connections, others = self.case.connections, self.case.cores[1]
        seen = await webhooks.closed_loop(port, requests, self.seconds, connections, others)
        answering, server = cpu.seconds(pid) - answering, self._server_seconds() - server
        results = self.case.items or 1
        each = 1e6 / (seen.accepted * results)
        return seen, Run(seen.rate * results, answering * each, server * each)

    def _server_seconds(self) -> float:
        return self.bench.server_seconds()

    async def _warm(self, port: int) -> webhooks.Closed:
        """Let statements be prepared, connections be opened and files grow."""
        requests = self._requests(self._enough)
        connections, others = self.case.connections, self.case.cores[1]
        return await webhooks.closed_loop(port, requests, 1, connections, others)

    def _requests(self, how_many: int) -> Path:
        path = self.bench.folder / "requests"
        webhooks.write(path, how_many, self.case.items)
        return path

    @asynccontextmanager
    async def _inboxd(self, connection: asyncpg.Connection) -> AsyncIterator[tuple[int, int]]:
        """Run the receiver; yields its process and its port."""
        await connection.execute(TOPIC)
        port, health = free_port(), free_port()
        config = self.bench.folder / "receive.toml"
        secret = base64.b64encode(webhooks.SECRET).decode()
        text = CONFIG.format(dsn=self.bench.dsn, health=health, port=port, secret=secret)
        config.write_text((text if self.case.items is None else text + ARRAY) + self.settings)
        command = [sys.executable, "-m", "inboxd", "receive", "-c", str(config)]
        if self.case.processes > 1:
            command += ["--processes", str(self.case.processes)]
        cpu.pin(self.bench.server.pid, self.case.cores[1])
        async with self._started(command, f"http://127.0.0.1:{health}/readyz") as pid:
            yield pid, port

    @asynccontextmanager
    async def _started(self, command: Sequence[str], page: str) -> AsyncIterator[int]:
        """Run a command on the cores of the receiver; yields its process once it is ready."""
        process = subprocess.Popen(command)  # noqa: ASYNC220
        os.sched_setaffinity(process.pid, self.case.cores[0])
        try:
            async for _ in patiently(0.05):
                if process.poll() is not None:
                    raise SystemExit(f"ended with {process.returncode}: {' '.join(command)}")
                try:
                    (await asyncio.to_thread(urllib.request.urlopen, page)).close()
                except OSError:
                    continue
                break
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


async def _verify(connection: asyncpg.Connection, accepted: int, case: Case) -> None:
    """End with an error unless each accepted request has its rows.

    Requests that were under way when wrk stopped may have rows too.
    """
    found = await connection.fetch(
        "select (select count(*) from inboxd.receipts), (select count(*) from inboxd.events)"
    )
    receipts, events = found[0]
    if not accepted <= receipts <= accepted + 2 * case.connections:
        raise SystemExit(f"{accepted} requests were accepted, but there are {receipts} receipts")
    if events != receipts * (case.items or 1):
        raise SystemExit(f"{receipts} receipts have {events} events, not {case.items or 1} each")


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """Rates beside those of the raw endpoint, slowest seconds, latencies at half of the rate."""
    for case in CASES:
        if not bench.wants(case.what):
            continue
        both = Receiving(bench, case)
        if case.items is None:
            runs, others = await in_turns(bench.repeat, both.receiver, both.raw)
        else:
            runs, others = (await in_turns(bench.repeat, both.receiver))[0], []
        target = Target(share=0.7) if case.processes == 1 and case.items is None else None
        line = Line(case.what, runs, "raw ASGI", others, target)
        yield line
        yield Line(f"{case.what}: the slowest second", both.slowest)
        rate = line.value / (case.items or 1) / 2
        seen = [await both.latency(rate) for _ in range(bench.repeat)]
        for part in ("p50", "p99", "max"):
            name = f"{case.what}: {part} at {rate:,.0f} requests/s"
            latencies = [Run(found[part]) for found in seen]
            goal = Target(25, most=True) if target is not None and part == "p99" else None
            yield Line(name, latencies, target=goal, unit=" ms")


if __name__ == "__main__":
    main(figures, __doc__)
