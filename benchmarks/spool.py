"""How fast webhooks are spooled while the database is down, and drained when it is back.

    make bench ONLY=spool            # needs wrk: apt install wrk

Down: measured as in `receive` with one process and single bodies, in turns with the database up.

Drained: `--rows` frames in the receiver's format are written beforehand into the folder that it
takes over. The time is from the first receipt in the database to the last; meanwhile new results of
the same source come at 500 per second, and queue behind the frames. The comparison is one producer
that emits the same events in bulk: the same dedup keys and bodies, without receipts.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import asyncpg
from receive import CORES, Case, Receiving

from harness import cpu, webhooks
from harness.bench import Bench, main, patiently
from harness.figures import Line, Run, Target, in_turns
from inboxd.client import Inbox, NewEvent
from inboxd.inbound.spool.boot_ids import Stamps
from inboxd.inbound.spool.encoding import encode
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import own
from inboxd.inbound.spool.log import Appender, read_cursor
from inboxd.inbound.spool.markers import Gates
from inboxd.model.lineage import uuid7
from inboxd.model.receipt import Receipt, ReceivedEvent

CASE = Case(None, 1)
PAGE = 1_000
NEW = 500  # new results per second during the drain
SPOOL = '[inbound.spool]\npath = "{path}"\nquota = "64GiB"\n'


@dataclass(slots=True)
class Spooling(Receiving):
    """A receiver with a spool, and the producer to compare it with."""

    case: Case = CASE
    latencies: list[Run] = field(default_factory=list)
    is_down: bool = False

    @property
    def path(self) -> Path:
        """The folder of the spool."""
        return self.bench.folder / "spool"

    async def up(self) -> Run:
        """Results per second while the database is up."""
        async with self._with_spool() as (_, pid, port):
            await self._warm(port)
            return (await self._run(pid, port))[1]

    async def down(self) -> Run:
        """Results per second while the database is down."""
        async with self._with_spool() as (_, pid, port):
            warm = await self._warm(port)
            with self._down():
                cold = await self._warm(port)
                seen, run = await self._run(pid, port)
            async for _ in patiently(0.2):
                if not list(self.path.glob("sources/*.spooled")):
                    break
            again = await asyncpg.connect(self.bench.dsn)
            receipts = await again.fetchval("select count(*) from inboxd.receipts")
            await again.close()
            accepted = warm.accepted + cold.accepted + seen.accepted
            if not accepted <= receipts <= accepted + 3 * CASE.connections:
                raise SystemExit(
                    f"{accepted} requests were accepted, but there are {receipts} receipts"
                )
        return run

    async def drain(self) -> Run:
        """Spooled results per second, while new results arrive."""
        rows = self.bench.rows
        shutil.rmtree(self.path, ignore_errors=True)
        folder = await asyncio.to_thread(self._fill, rows)
        requests = self._requests(NEW * 600)
        async with self.bench.fresh() as connection, self._inboxd(connection) as (pid, port):
            async for _ in patiently(0.002):
                if await connection.fetchval("select exists (select from inboxd.receipts)"):
                    break
            started, worker, server = time.perf_counter(), cpu.seconds(pid), self._server_seconds()
            seconds = max(1, min(30, rows // 12_000))
            others = CORES[1:] or CORES
            load = asyncio.create_task(webhooks.open_loop(port, requests, NEW, seconds, others))
            async for _ in patiently(0.005):
                if read_cursor(folder, SystemFiles()) >= rows:
                    break
            took = time.perf_counter() - started
            worker, server = cpu.seconds(pid) - worker, self._server_seconds() - server
            self.latencies.append(Run((await load)["p99"]))
            async for _ in patiently(0.2):
                if not list(self.path.glob("sources/*.spooled")):
                    break
            receipts = await connection.fetchval("select count(*) from inboxd.receipts")
            if receipts != rows + NEW * seconds:
                raise SystemExit(f"{receipts} receipts, not {rows + NEW * seconds}")
        return Run(rows / took, worker * 1e6 / rows, server * 1e6 / rows)

    async def emit(self) -> Run:
        """The same events per second by a producer in bulk."""
        rows = self.bench.rows
        cpu.pin(self.bench.server.pid, CORES[1:] or CORES)
        async with self.bench.fresh() as connection:
            producer = await asyncpg.connect(self.bench.dsn)
            await connection.execute(
                "insert into inboxd.topics (name, mode, source)"
                " values ('results', 'sequential', 'bench')"
            )
            drafts = (
                NewEvent(
                    "result.received",
                    webhooks.result(n),
                    topic="results",
                    source="bench",
                    ordering_key=f"match-{n % webhooks.MATCHES}",
                    dedup_key=f"msg_{n}",
                )
                for n in range(rows)
            )
            client, server = time.process_time(), self._server_seconds()
            started = time.perf_counter()
            await Inbox().emit_many(producer, drafts)
            took = time.perf_counter() - started
            client, server = time.process_time() - client, self._server_seconds() - server
            await producer.close()
        return Run(rows / took, client * 1e6 / rows, server * 1e6 / rows)

    def _server_seconds(self) -> float:
        return 0.0 if self.is_down else self.bench.server_seconds()

    @contextmanager
    def _down(self) -> Iterator[None]:
        with self.bench.server.outage():
            self.is_down = True
            yield
        self.is_down = False

    @asynccontextmanager
    async def _with_spool(self) -> AsyncIterator[tuple[asyncpg.Connection, int, int]]:
        shutil.rmtree(self.path, ignore_errors=True)
        async with self.bench.fresh() as connection, self._inboxd(connection) as (pid, port):
            yield connection, pid, port

    def _fill(self, rows: int) -> Path:
        """Spool `rows` results; returns the folder."""
        owned = own(self.path)
        log = Appender(owned.folder, SystemFiles(), quota=1 << 40, segment_bytes=1 << 26)
        Gates(self.path).mark("bench")
        stamps, sent = Stamps(self.path), iter(webhooks.requests(None))
        for start in range(0, rows, PAGE):
            page = range(start, min(rows, start + PAGE))
            log.append([encode(stamps.make(), _receipt(n, next(sent))) for n in page])
        owned.release()
        return owned.folder


def _receipt(number: int, request: bytes) -> Receipt:
    body = request.partition(b"\r\n\r\n")[2]
    event = ReceivedEvent(
        event_id=uuid7(),
        type="result.received",
        payload=body.decode(),
        topic="results",
        ordering_key=f"match-{number % webhooks.MATCHES}",
        dedup_key=f"msg_{number}",
    )
    return Receipt(
        receipt_id=uuid7(),
        received_at=datetime.now(UTC),
        source="bench",
        body=body,
        content_type="application/json",
        headers=f'{{"webhook-id": "msg_{uuid4().hex}"}}',
        address="127.0.0.1",
        key_id="1",
        events=[event],
    )


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """Down compared with up; drained compared with emitted in bulk."""
    both = Spooling(bench)
    both.settings = SPOOL.format(path=both.path)
    what = "received while the database is down"
    if bench.wants(what):
        runs, others = await in_turns(bench.repeat, both.down, both.up)
        yield Line(what, runs, "up", others, Target(share=0.6))
    what = "drained, with 500 new ones a second"
    if bench.wants(what):
        runs, others = await in_turns(bench.repeat, both.drain, both.emit)
        yield Line(what, runs, "bulk emit", others, Target(share=0.75))
        limit = Target(50, most=True)
        yield Line(f"{what}: p99 of these", both.latencies, target=limit, unit=" ms")


if __name__ == "__main__":
    main(figures, __doc__)
