"""The cost of the wake-up trigger for producers: pgbench inserts rows, a worker drains them.

    make bench ONLY=inserts

The same table with its trigger and without, in turns. Both times the worker polls every tenth of a
second, because without the trigger only polling finds rows. pgbench is that of the embedded
server's wheel. `--rows` limits the rows of the longest run, at about 20,000/s.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from functools import partial

from harness.bench import Bench, main
from harness.cpu import seconds as seconds_of
from harness.figures import Comparison, Line, Run, Target
from inboxd.embedded.datadir import wheel

CLIENTS = (1, 16, 32)
PAYLOAD = json.dumps({"n": 1, "pad": 170 * "x"})
INSERT = f"insert into inboxd.events (type, payload) values ('bench.noop', '{PAYLOAD}');"
POLL = {"WORKER__POLL_INTERVAL": "100ms"}
WITHOUT = "alter table inboxd.events disable trigger events_inserted"
# A trigger that does nothing shows what any trigger costs.
EMPTY = """
    create or replace function inboxd.events_inserted() returns trigger language plpgsql
    as 'begin return null; end'
"""


async def measure(bench: Bench, clients: int, change: str, mode: str = "quiet") -> Run:
    """Inserted rows per second by `clients`, on a schema with this change."""
    seconds = max(1, min(5, bench.rows // 20_000))
    script = bench.folder / "insert.sql"
    script.write_text(INSERT)
    async with bench.fresh() as connection:
        if change:
            await connection.execute(change)
        with bench.daemon({**POLL, "WAKEUPS__MODE": mode}) as daemon:
            await daemon.ready()
            worker, server = seconds_of(daemon.pid), bench.server_seconds()
            rate = await _pgbench(bench, script.as_posix(), clients, seconds)
            worker, server = seconds_of(daemon.pid) - worker, bench.server_seconds() - server
        left = await connection.fetchval("select count(*) from inboxd.events")
    if left > rate * seconds / 2:
        raise SystemExit(f"{clients} clients: the worker left {left} rows, so it did not drain")
    each = 1e6 / (rate * seconds)
    return Run(rate, worker * each, server * each)


async def _pgbench(bench: Bench, script: str, clients: int, seconds: int) -> float:
    program = wheel() / "pginstall" / "bin" / "pgbench"
    process = await asyncio.create_subprocess_exec(
        program,
        *("--no-vacuum", "--protocol=prepared", f"--file={script}", f"--time={seconds}"),
        *(f"--client={clients}", f"--jobs={min(clients, 2)}", bench.dsn),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    found = re.search(rb"^tps = ([\d.]+)", said, re.MULTILINE)
    if found is None:
        raise SystemExit("pgbench printed no tps")
    return float(found[1])


def comparisons(bench: Bench) -> Iterator[Comparison]:
    """The trigger, an empty trigger, and a trigger that always notifies."""
    for clients in CLIENTS:
        without = partial(measure, bench, clients, WITHOUT)
        quiet = partial(measure, bench, clients, "")
        what = f"single-row inserts by {clients} client{'s'[: clients - 1]}"
        yield Comparison(what, quiet, Target(share=0.85), "no trigger", without)
    without = partial(measure, bench, 16, WITHOUT)
    empty = partial(measure, bench, 16, EMPTY)
    yield Comparison("an empty trigger, 16 clients", empty, None, "no trigger", without)
    always = partial(measure, bench, 16, "", "always")
    yield Comparison("mode always, 16 clients", always, None, "no trigger", without)


def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for each number of clients."""
    return bench.compare(comparisons(bench))


if __name__ == "__main__":
    main(figures, __doc__)
