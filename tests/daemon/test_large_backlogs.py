"""A million rows that may not run do not measurably slow down other rows.

The tests compare touched pages, by the server's counters, for equal drains beside a crowd and
without one. The speed and the load of the machine do not change them; the CPU seconds of a worker
and its sessions are only printed. All turns count, and their number is fixed. CI runs one of each
pair; `tests/plans/test_crowds.py` counts the pages of claims alone, with fewer rows.
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
# Drains of each side, in turns: other load on the machine affects both sides.
TURNS = 3
ROWS = 20_000
# Maximum ratio of the pages that a drain touches with a crowd and without: a crowd makes indexes
# one level higher. A walk over the crowd, even one for each thousand rows, would touch ten times as
# many pages.
MORE = 2.0
_SETTLED = (
    "select coalesce(sum(n_tup_ins), 0)::bigint from pg_stat_all_tables"
    " where schemaname = 'inboxd' and relname like 'commands_history%'"
)
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Side:
    """A worker on a database of its own, and the costs of its drains so far."""

    database: Database
    worker: Worker
    pages: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def drain(self) -> None:
        """Let the worker handle `ROWS` commands.

        A session reports its touched pages some time after its work, together with its written
        rows, so this waits for those rows. The check for the end reads one row.
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
        """CPU seconds so far of the worker and of each of its open sessions.

        A session that ends between the query and the reading of its time is left out. The time that
        the postmaster sums up for ended processes would include autovacuum.
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
    """User and system time. The process's name, in brackets, may contain anything."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / _TICK


@pytest.fixture
def elsewhere(server: AnyServer, template: Database) -> Iterator[Database]:
    """A database without a crowd."""
    fresh = create(server, template.name)
    yield fresh
    drop(server, fresh)


Crowd = Callable[[], Awaitable[object]]
Hold = Callable[[Crowd, Config], Awaitable[None]]


@pytest.fixture
def hold(database: Database, elsewhere: Database, start_worker: StartWorker) -> Hold:
    """Assert that drains beside a crowd touch about as many pages as elsewhere."""

    async def compare(crowd: Crowd, config: Config) -> None:
        for each in (database, elsewhere):
            await leave_alone(each)
        beside = Side(database, await start_worker(config))
        alone = Side(elsewhere, await start_worker({**config, "database": {"dsn": elsewhere.dsn}}))
        for side in (beside, alone):
            await side.drain()  # costs that occur once, such as those of making plans
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


# Two commands of the crowd run until the worker is ended.
FULL: Config = {
    "queues": {"crowd": {"total_concurrency": 2}},
    "commands": {"timeout": "1h"},
}


@pytest.mark.parametrize(
    "keyed", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["without keys", "keyed"]
)
async def test_a_queue_at_its_total_limit_costs_others_nothing(
    database: Database, hold: Hold, keyed: bool
) -> None:
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
async def test_a_paused_type_costs_others_nothing(
    database: Database, hold: Hold, keyed: bool
) -> None:
    async def crowd() -> None:
        await pause(database, "type", "test.wait")
        await database.execute(CROWD, "default", keyed)  # in the queue of the other rows

    await hold(crowd, {})
    left = await database.fetch(
        "select status, count(*), max(fence) from inboxd.commands group by 1"
    )
    waits = "waiting" if keyed else "pending"
    assert [tuple(row) for row in left] == [(waits, 1_000_000, 0)]


@pytest.mark.parametrize(
    "keyed", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["without keys", "keyed"]
)
async def test_a_type_behind_an_open_breaker_costs_others_nothing(
    database: Database, hold: Hold, keyed: bool
) -> None:
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
