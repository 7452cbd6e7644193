"""No-op commands, compared with the same work by PgQueuer and procrastinate.

    make bench ONLY=peers            # installs the extra `bench`

One process each, the same durable server, the same payload of 200 bytes, a handler that does
nothing. The work is not the same: a command is also validated into a pydantic model, runs under a
time limit, and is kept whole in a history; PgQueuer logs that a job was done and forgets its
payload; procrastinate keeps the row where it is.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import asyncpg
from drain import Drain

from harness.backlog import PAD, payload
from harness.bench import Bench, Daemon, called, emptied, main, patiently
from harness.cpu import seconds
from harness.figures import Comparison, Line, Run, Target
from inboxd_bench.marks import Marks

WORKER = Path(__file__).parent / "harness" / "peer.py"


@dataclass(frozen=True)
class Peer:
    """How to fill a peer's table, and which of its rows are unfinished."""

    name: str
    table: str
    fill: str
    unfinished: str
    share: float
    install: Callable[[str], Awaitable[None]]

    async def measure(self, bench: Bench) -> Run:
        """Drain a backlog by one worker of the peer."""
        rows = max(1, int(bench.rows * self.share))
        await bench.recreate()
        await self.install(bench.dsn)
        connection = await bench.connect()
        await connection.execute(
            f"{self.fill} from (select {payload(200)} as body from {PAD} as t(pad), "
            f"generate_series(1, {rows}) n) as t"
        )
        await connection.execute(f"vacuum analyze {self.table}")
        await connection.execute("checkpoint")
        holder = await bench.connect()
        await holder.execute(f"begin; lock table {self.table} in exclusive mode")
        with self._worker(bench) as worker:
            async for _ in patiently(0.05):
                if await connection.fetchval("select count(*) from pg_locks where not granted"):
                    break
            server, own = bench.server_seconds(), seconds(worker.pid)
            await holder.execute("commit")
            await called([worker], rows)
            ended = await emptied(connection, f"{self.table} {self.unfinished}")
            server, own = bench.server_seconds() - server, seconds(worker.pid) - own
        await asyncio.gather(holder.close(), connection.close())
        each = 1e6 / rows
        return Run(rows / (ended - worker.marks.first), own * each, server * each)

    @contextmanager
    def _worker(self, bench: Bench) -> Iterator[Daemon]:
        marks = bench.folder / f"{self.name}-{os.urandom(4).hex()}"
        shown = Marks.at(marks)
        process = subprocess.Popen(
            [sys.executable, WORKER, self.name, bench.dsn],
            env={**os.environ, **Marks.environment(marks)},
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Daemon(process.pid, "", shown)
        finally:
            process.kill()
            process.wait()


async def install_pgqueuer(dsn: str) -> None:
    from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415 - of the extra `bench`
    from pgqueuer.queries import Queries  # noqa: PLC0415

    connection = await asyncpg.connect(dsn)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def install_procrastinate(dsn: str) -> None:
    from procrastinate.schema import SchemaManager  # noqa: PLC0415

    connection = await asyncpg.connect(dsn)
    await connection.execute(SchemaManager.get_schema())
    await connection.close()


PGQUEUER = Peer(
    "pgqueuer",
    "pgqueuer",
    "insert into pgqueuer (priority, entrypoint, payload, status) "
    "select 0, 'noop', convert_to(body::text, 'utf8'), 'queued'",
    "",
    1.0,
    install_pgqueuer,
)
PROCRASTINATE = Peer(
    "procrastinate",
    "procrastinate_jobs",
    "insert into procrastinate_jobs (queue_name, task_name, args) select 'default', 'noop', body",
    "where status in ('todo', 'doing')",
    0.05,  # more would take minutes
    install_procrastinate,
)


def comparisons(bench: Bench) -> Iterator[Comparison]:
    """Commands compared with each peer; events compared with PgQueuer."""
    for table, peer, target in (
        ("commands", PGQUEUER, Target(share=1.4)),
        ("commands", PROCRASTINATE, None),
        ("events", PGQUEUER, None),
    ):
        ours = partial(Drain(table, table, bench.rows).measure, bench)
        what = f"no-op {table}, beside {peer.name}"
        yield Comparison(what, ours, target, peer.name, partial(peer.measure, bench))


def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for each comparison."""
    return bench.compare(comparisons(bench))


if __name__ == "__main__":
    main(figures, __doc__)
