"""One durable server, with a fresh database for each measurement; workers as users run them.

Owns the processes, and the life of a measurement. Promises: a drain has one beginning: the backlog
is filled, vacuumed and locked; the workers start and become ready; then the lock is released.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import uvloop
from pydantic import SecretStr

from harness import cpu
from harness.figures import HEADER, Comparison, Line
from inboxd.embedded import Server, free_port
from inboxd.settings import Database
from inboxd.store.connections import OWN_PLANS
from inboxd.store.migrations import migrate
from inboxd_bench.marks import Marks

SERVER = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
# The arguments of the interpreter that runs inboxd.
INBOXD = ("-m", "inboxd")
_LONGEST = 900.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """One worker process: its id, its address and its marks."""

    pid: int
    url: str
    marks: Marks

    async def ready(self) -> None:
        """Wait until the worker is ready."""
        async for _ in patiently(0.05):
            try:
                await asyncio.to_thread(urllib.request.urlopen, f"{self.url}/readyz")
            except OSError:
                continue
            return


@dataclass(slots=True)
class Bench:
    """A benchmark's server and options: rows, turns, and the lines that are wanted."""

    server: Server
    folder: Path
    rows: int
    repeat: int
    lines: str
    database: str = "bench"
    _count: int = field(default=0)

    @property
    def dsn(self) -> str:
        """The DSN of the database that `fresh` creates."""
        return self.server.dsn(self.database)

    def wants(self, what: str) -> bool:
        """Whether this line was requested."""
        return self.lines in what

    async def compare(self, comparisons: Iterable[Comparison]) -> AsyncIterator[Line]:
        """The lines of those comparisons that were requested."""
        for comparison in comparisons:
            if self.wants(comparison.what):
                yield await comparison.line(self.repeat)

    def server_seconds(self) -> float:
        """CPU seconds of all backends so far."""
        return cpu.seconds(self.server.pid)

    async def connect(self) -> asyncpg.Connection:
        """A connection with the settings of the daemon's own connections."""
        return await asyncpg.connect(self.dsn, server_settings={**OWN_PLANS, "jit": "off"})

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection to an empty, migrated database."""
        await self.recreate()
        await migrate(Database(dsn=SecretStr(self.dsn)))
        connection = await self.connect()
        await connection.execute("create table ledger (n bigint, note text)")
        try:
            yield connection
        finally:
            await connection.close()

    async def recreate(self) -> None:
        """Create the database anew, without a schema."""
        admin = await asyncpg.connect(self.server.dsn())
        await admin.execute(f"drop database if exists {self.database} with (force)")
        await admin.execute(f"create database {self.database}")
        await admin.close()

    @contextmanager
    def daemon(
        self, settings: dict[str, str] | None = None, program: Sequence[str] = INBOXD
    ) -> Iterator[Daemon]:
        """A worker as a user runs it; `settings` are environment variables without `INBOXD_`."""
        self._count += 1
        port, path = free_port(), self.folder / f"marks-{self._count}"
        marks = Marks.at(path)
        process = subprocess.Popen(
            [sys.executable, *program, "run"],
            env=self._environment({"HTTP__PORT": str(port), **(settings or {})})
            | Marks.environment(path),
        )
        try:
            yield Daemon(process.pid, f"http://127.0.0.1:{port}", marks)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:  # its last statement does not end
                process.kill()
                process.wait()

    def declare(self, settings: dict[str, str] | None = None) -> None:
        """Declare what the workers will: the first declaration asks for events that wait."""
        environment = self._environment(settings or {})
        command = [sys.executable, "-m", "inboxd", "declare"]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        given = {
            "DATABASE__DSN": self.dsn,
            "WORKER__PLUGINS": "bench",
            "LOG__LEVEL": "warning",
            **settings,
        }
        return {**os.environ, **{f"INBOXD_{key}": value for key, value in given.items()}}

    @asynccontextmanager
    async def held_daemons(
        self, count: int, settings: dict[str, str] | None = None, program: Sequence[str] = INBOXD
    ) -> AsyncIterator[tuple[list[Daemon], Callable[[], "asyncio.Future[object]"]]]:
        """Yield workers that are ready and wait for a lock, and the function that releases it."""
        async with AsyncExitStack() as stack:
            processes = stack.enter_context(ExitStack())
            await asyncio.to_thread(self.declare, settings)
            holder = await self.connect()
            stack.push_async_callback(holder.close)
            # Readers must wait too: a claim of lines is a plain SELECT, which would run before the
            # start.
            await holder.execute(
                "begin; lock table inboxd.events, inboxd.commands in access exclusive mode"
            )
            daemons = [
                processes.enter_context(self.daemon(settings, program)) for _ in range(count)
            ]
            for daemon in daemons:
                await daemon.ready()
            yield daemons, lambda: asyncio.ensure_future(holder.execute("commit"))


async def called(daemons: list[Daemon], calls: int) -> None:
    """Wait until handlers were called for this many rows, without load on worker or server."""
    async for _ in patiently(0.005):
        if sum(daemon.marks.calls for daemon in daemons) >= calls:
            return


async def emptied(connection: asyncpg.Connection, *tables: str) -> float:
    """Wait until tables, or the rows of a WHERE, are empty; returns the moment."""
    empty = " and ".join(f"not exists (select from {table})" for table in tables)
    async for _ in patiently(0.005):
        if await connection.fetchval(f"select {empty}"):
            break
    return time.monotonic()


async def patiently(pause: float) -> AsyncIterator[None]:
    """Yield after each pause, for a quarter of an hour at most."""
    deadline = time.monotonic() + _LONGEST
    while time.monotonic() < deadline:
        yield
        await asyncio.sleep(pause)
    raise SystemExit(f"not done within {_LONGEST:.0f} seconds")


def main(
    subject: Callable[[Bench], AsyncIterator[object]],
    about: str | None,
    *,
    header: str = HEADER,
    settings: Mapping[str, str] = SERVER,
) -> None:
    """Run a benchmark from the command line, on a server with these settings."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a backlog")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each line")
    parser.add_argument("--lines", default="", help="only lines with this text in their name")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the server"
    )
    given = parser.parse_args()
    asked = dict(setting.split("=", 1) for setting in given.set)
    header = f"With {', '.join(given.set)}.\n\n{header}" if asked else header
    with tempfile.TemporaryDirectory() as folder:
        server = Server.start(Path(folder) / "data", settings={**settings, **asked})
        try:
            bench = Bench(server, Path(folder), given.rows, given.repeat, given.lines)
            uvloop.run(_print(subject(bench), bench, header))
        finally:
            server.stop()
            shutil.rmtree(server.home)  # as root the server's files are elsewhere


async def _print(lines: AsyncIterator[object], bench: Bench, header: str) -> None:
    name = Path(sys.argv[0]).stem
    print(f"### {name}: {bench.rows:,} rows, {bench.repeat} turns\n\n{header}", flush=True)
    before = cpu.calibrate()
    async for line in lines:
        print(line, flush=True)
    print(f"\nA fixed loop took {before:.0f} ms before and {cpu.calibrate():.0f} ms after.\n")
