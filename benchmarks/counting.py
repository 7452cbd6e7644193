"""The cost of statistics, histograms, samples and the census for each row of a drain.

    make bench ONLY=counting         # or: python benchmarks/counting.py --rows 100000

The same backlog, five times --rows, is drained by a worker as users run it, and in the same turns
by a worker that keeps none of these numbers (`harness/uncounted.py`). Handlers do nothing, so the
share of the numbers is as large as it can be. The figure is CPU microseconds per row, of worker and
server. Work that follows later is added to the side that has it: the roll-up of what the worker
wrote, and the census of the day that it filled. Here this process does both, by the leader's
statements.
Known limits: a census of events also counts their sources for the daily statement, which is left
out; a worker's last write, when it stops, is not measured.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from drain import SQL, Drain

from harness.bench import Bench, main
from harness.figures import Line, Run, Target, in_turns
from inboxd.store import census, statistics
from inboxd.store.census import DayCount
from inboxd.store.session import Session

# A drain lasts for some samples and writes of statistics.
TIMES = 5
# Rows that the leader rolls up in one transaction.
PAGE = 2_000
# The interpreter's option -P: the folder of the program hides no other module.
UNCOUNTED = ("-P", str(Path(__file__).parent / "harness/uncounted.py"))


@dataclass(frozen=True)
class Alone(Drain):
    """A drain measured in CPU microseconds per row."""

    async def measure(self, bench: Bench) -> Run:
        """Drain the backlog by one worker."""
        return _cost(await super().measure(bench))


@dataclass(frozen=True)
class Counted(Drain):
    """The same drain, with the work that follows it."""

    async def measure(self, bench: Bench) -> Run:
        """Drain the backlog by one worker, then roll up and count."""
        run = await super().measure(bench)
        connection = await bench.connect()
        try:
            own, server = time.process_time(), bench.server_seconds()
            session = Session(connection, SQL)
            await _roll_up(session)
            await self._count(session)
            own, server = time.process_time() - own, bench.server_seconds() - server
        finally:
            await connection.close()
        each = 1e6 / self.rows
        worker = (run.worker or 0.0) + own * each
        return _cost(replace(run, worker=worker, server=(run.server or 0.0) + server * each))

    async def _count(self, session: Session) -> None:
        """Count the days of the drain as the leader does when they are over."""
        counted = 0
        for day in await census.uncounted(session):
            if day.table != self.table:
                continue
            began, found = (
                await census.begin(session, day.part, day.parent),
                DayCount(),
            )
            for stretch in census.stretches(day):
                await census.count(session, day, stretch, found)
            await census.end(session, day, began, found)
            counted += found.statuses.total()
        if counted != self.rows:
            raise SystemExit(f"{self.what}: {counted} of {self.rows} rows were counted")


async def _roll_up(session: Session) -> None:
    rolled = PAGE
    while rolled == PAGE:
        async with session.transaction():
            rolled = await statistics.roll_up(session, PAGE)


def _cost(run: Run) -> Run:
    """The run with its CPU as the value."""
    return replace(run, value=(run.worker or 0.0) + (run.server or 0.0))


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for events and one for commands."""
    for table in ("events", "commands"):
        what = f"no-op {table} with all numbers, CPU per row"
        if not bench.wants(what):
            continue
        rows = TIMES * bench.rows
        counted = Counted(what, table, rows)
        alone = Alone(f"no-op {table} without numbers", table, rows, program=UNCOUNTED)
        sides = (partial(counted.measure, bench), partial(alone.measure, bench))
        runs, others = await in_turns(bench.repeat, *sides)
        yield Line(what, runs, "without", others, Target(share=1.05, most=True), " µs")


if __name__ == "__main__":
    main(figures, __doc__)
