"""A million rows that may not run cost the others nothing measurable.

What is held is work: the pages that are touched for as many rows beside a crowd and elsewhere, by
the server's own counters. How fast or busy the machine is, is not in them; the CPU seconds of a
worker and of its sessions are printed. All turns count, and there are always as many. CI has one of
each pair; what claims alone touch is counted with fewer rows in `tests/plans/test_crowds.py`.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.daemon.test_controls import pause
from tests.plans.filling import leave_alone
from tests.plans.statistics import PAGES
from tests.support import Config, Database, StartWorker, Worker, create, drop, eventually
from tests.support.databases import AnyServer
from tests.support.rows import send

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(900)]

CROWD = (
    "insert into inboxd.commands (queue, type, payload, ordering_key) select $1,"
    " 'test.wait', '{\"wait\": 3600}', case when $2 then 'k' || n % 1000 end"
    " from generate_series(1, 1000000) n"
)
# Drains of each side, in turns: what else the machine does meets both.
TURNS = 3
ROWS = 20_000
# How many times the pages a drain may touch beside a crowd: the indexes are one level higher there.
# Whoever walked over the crowd, even once for a thousand rows, would touch ten times as many.
MORE = 2.0
_SETTLED = (
    "select coalesce(sum(n_tup_ins), 0)::bigint from pg_stat_all_tables"
    " where schemaname = 'inboxd' and relname like 'commands_history%'"
)
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Side:
    """A worker on a database of its own, and what its drains have cost so far."""

    database: Database
    worker: Worker
    pages: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def drain(self) -> None:
        """Let it handle so many rows.

        A session reports what it touched some time after it did, with the rows that it wrote: so
        these are waited for. Whether the rows are settled is asked at the price of one row.
        """
        before, touched = await self._used(), await self.database.fetchval(PAGES)
        counted = await self.database.fetchval(_SETTLED)
        ids = await send(self.database, ROWS, "test.noop")
        left = "select exists (select from inboxd.commands where id between $1 and $2)"

        async def settled() -> bool:
            return not await self.database.fetchval(left, ids[0], ids[-1])

        async def told() -> bool:
            return bool(await self.database.fetchval(_SETTLED) >= counted + ROWS)

        await eventually(settled, within=120)
        await eventually(told)
        self.pages.append(await self.database.fetchval(PAGES) - touched)
        used = await self._used()
        self.cpu.append(sum(seconds - before.get(pid, 0.0) for pid, seconds in used.items()))

    async def _used(self) -> dict[int, float]:
        """CPU seconds so far of the worker and of each of its sessions that is still there.

        A session may end between the query and the reading of its time; it is left out. The time
        that the postmaster keeps of ended processes has the work of autovacuum in it.
        """
        sessions = await self.database.fetch(
            "select pid from pg_stat_activity"
            " where datname = current_database() and application_name like 'inboxd %'"
        )
        used = {}
        for pid in [self.worker.process.pid, *(row["pid"] for row in sessions)]:
            with suppress(FileNotFoundError, ProcessLookupError):
                used[pid] = _seconds(pid)
        return used


def _seconds(pid: int) -> float:
    """User and system time; the process's name, in brackets, may hold anything."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / _TICK


@pytest.fixture
def elsewhere(server: AnyServer, template: Database) -> Iterator[Database]:
    """A database in which no crowd waits."""
    fresh = create(server, template.name)
    yield fresh
    drop(server, fresh)


Crowd = Callable[[], Awaitable[object]]
Hold = Callable[[Crowd, Config], Awaitable[None]]


@pytest.fixture
def hold(database: Database, elsewhere: Database, start_worker: StartWorker) -> Hold:
    """Hold that drains beside a crowd touch as many pages as elsewhere."""

    async def compare(crowd: Crowd, config: Config) -> None:
        for each in (database, elsewhere):
            await leave_alone(each)
        beside = Side(database, await start_worker(config))
        alone = Side(elsewhere, await start_worker({**config, "database": {"dsn": elsewhere.dsn}}))
        for side in (beside, alone):
            await side.drain()  # with what happens once, as plans are made
            side.pages.clear()
            side.cpu.clear()
        await crowd()
        await database.execute("analyze inboxd.commands")
        for _ in range(TURNS):
            await alone.drain()
            await beside.drain()
        pages, cpu = sum(beside.pages) / sum(alone.pages), sum(beside.cpu) / sum(alone.cpu)
        print(f"{pages:.2f} of the pages, {cpu:.2f} of the CPU: {alone}, {beside}")  # noqa: T201 - figures to look at
        assert pages < MORE

    return compare


# Those that run, run until the worker is ended.
FULL: Config = {
    "queues": {"crowd": {"total_concurrency": 2}},
    "commands": {"timeout": "1h"},
}


@pytest.mark.parametrize(
    "keyed", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["without keys", "keyed"]
)
async def test_a_queue_at_its_total_limit(database: Database, hold: Hold, keyed: bool) -> None:
    async def crowd() -> None:
        await database.execute(CROWD, "crowd", keyed)

        async def is_full() -> bool:
            count = "select count(*) from inboxd.commands where status = 'running'"
            return bool(await database.fetchval(count) == 2)

        await eventually(is_full, within=120)

    await hold(crowd, FULL)
    left = await database.fetch("select status, count(*) from inboxd.commands group by status")
    waits = "waiting" if keyed else "pending"
    assert dict(map(tuple, left)) == {"running": 2, waits: 999_998}


@pytest.mark.parametrize(
    "keyed", [pytest.param(False, marks=pytest.mark.soak), True], ids=["without keys", "keyed"]
)
async def test_a_paused_type(database: Database, hold: Hold, keyed: bool) -> None:
    async def crowd() -> None:
        await pause(database, "type", "test.wait")
        await database.execute(CROWD, "default", keyed)  # where the others are too

    await hold(crowd, {})
    left = await database.fetch(
        "select status, count(*), max(fence) from inboxd.commands group by 1"
    )
    waits = "waiting" if keyed else "pending"
    assert [tuple(row) for row in left] == [(waits, 1_000_000, 0)]


@pytest.mark.parametrize(
    "keyed", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["without keys", "keyed"]
)
async def test_a_type_behind_an_open_breaker(database: Database, hold: Hold, keyed: bool) -> None:
    async def crowd() -> None:
        await database.execute(
            "update inboxd.breakers set mode = 'open', version = version + 1 where name = 'target'"
        )
        await database.execute(
            CROWD.replace("test.wait", "test.target").replace('{"wait": 3600}', "{}"),
            "default",
            keyed,
        )

    await hold(crowd, {})
    left = await database.fetch(
        "select status, count(*), max(fence) from inboxd.commands group by 1"
    )
    waits = "waiting" if keyed else "pending"
    assert [tuple(row) for row in left] == [(waits, 1_000_000, 0)]
