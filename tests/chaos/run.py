"""A whole run: server, workers, producers and faults; then quiet, and the verdict.

    report = run(seed=7, seconds=120, folder=folder, say=print)

Promises: no process outlives it; the files in its folder (logs of every life, the server's log, the
broken promises with all their rows) suffice to examine a failure.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio

from inboxd.embedded import Server
from tests.chaos.faults import Faults
from tests.chaos.fleet import fleet
from tests.chaos.ledger import TABLES
from tests.chaos.load import Load
from tests.chaos.operators import Operator
from tests.chaos.producers import Producer
from tests.chaos.quiet import Quiet
from tests.chaos.schedule import WORKERS, plan
from tests.chaos.verdict import BrokenPromise, figures, judge
from tests.support import Database, create_migrated, temporary_server
from tests.support.proxy import proxy

_PRODUCERS = 3
# Few, so that a fault takes all of them within a moment.
_SLOTS = "60"


@dataclass(frozen=True)
class Report:
    """The result of a run."""

    seed: int
    folder: Path
    broken: tuple[BrokenPromise, ...]
    figures: dict[str, object]

    def __str__(self) -> str:
        """The text for a terminal."""
        lines = [f"{name:<28}{value}" for name, value in self.figures.items()]
        lines += map(str, self.broken)
        if self.broken:
            lines.append(f"seed {self.seed}; logs and rows are in {self.folder}")
        return "\n".join(lines)


def run(seed: int, seconds: float, folder: Path, say: Callable[[str], None]) -> Report:
    """Run chaos for this many seconds, and return the result; logs go to `folder`."""
    say(f"seed {seed}, {seconds:g} seconds, logs in {folder}")
    with temporary_server(max_connections=_SLOTS) as server:
        database = create_migrated(server)
        try:
            broken, seen = anyio.run(_run, server, database, seed, seconds, folder, say)
        finally:
            shutil.copy(server.home / "server.log", folder)
    rows = "\n".join(f"{each.promise}\n" + "\n".join(each.rows) for each in broken)
    (folder / "violations.txt").write_text(rows)
    return Report(seed, folder, tuple(broken), seen)


async def _run(
    server: Server,
    database: Database,
    seed: int,
    seconds: float,
    folder: Path,
    say: Callable[[str], None],
) -> tuple[list[BrokenPromise], dict[str, object]]:
    await database.execute(TABLES)
    traces = folder / "traces"
    traces.touch()
    with proxy(database.dsn) as way:
        async with fleet(database.dsn, folder) as services:
            producers = [
                Producer(f"producer {number}", way.dsn, Load(f"{seed} {number}", traces))
                for number in range(_PRODUCERS)
            ]
            operator = Operator(database, seed, seconds)
            faults = Faults(server, database, services, way, say)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(operator.run)
                await _storm(producers, faults, seed, seconds)
                say("the faults are over")
                quiet = Quiet(database, services)
                await quiet.settle_down()
                operator.stop()
            say("drained")
            await quiet.be_calm()
            await quiet.leave()
    broken = await judge(database, traces.read_text().split())
    await quiet.look_back(faults.done)
    seen = await figures(database)
    seen["rows mended"] = operator.mended
    seen["transactions"] = sum(producer.transactions for producer in producers)
    seen["transactions lost"] = dict(sum((producer.lost for producer in producers), Counter[str]()))
    seen["faults"] = len(faults.done)
    seen["lives"] = {name: len(services[name].lives) for name in WORKERS}
    return [*quiet.broken, *broken], seen


async def _storm(producers: list[Producer], faults: Faults, seed: int, seconds: float) -> None:
    async with anyio.create_task_group() as tasks:
        for producer in producers:
            tasks.start_soon(producer.run)
        async with anyio.create_task_group() as trouble:
            trouble.start_soon(faults.run, plan(seed, seconds))
            trouble.start_soon(anyio.sleep, seconds)
        for producer in producers:
            producer.stop()
