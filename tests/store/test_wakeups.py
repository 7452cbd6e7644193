"""Wake-ups: notifications of the triggers by the flag, and no row is left behind."""

import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import anyio.to_thread
import pytest
from anyio.abc import TaskStatus

from inboxd.embedded import Server
from inboxd.engine.fleet import Fleet
from inboxd.engine.processor import Page, Processor, Survey
from inboxd.engine.wakeup import WakeUp
from inboxd.store import wakeups
from inboxd.store.connections import Connection
from inboxd.store.pools import Pool, borrow
from inboxd.store.wakeups import Flag, HotTable
from inboxd.telemetry.metrics import Metrics
from tests.support import Database, ExternalServer, StartWorker, create, drop, eventually
from tests.support.rows import daemon_pool, daemon_session, emit, send, settings_of

pytestmark = pytest.mark.anyio

TABLES: list[HotTable] = ["events", "commands"]
INSERT = {
    "events": "insert into inboxd.events (type) values ('test.noop')",
    "commands": "insert into inboxd.commands (queue, type) values ('default', 'test.noop')",
}


@asynccontextmanager
async def _heard(
    database: Database, table: HotTable
) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """Count notifications of a table; a marker shows that all before it were received."""
    heard: list[str] = []

    async def so_far() -> int:
        await database.execute("select pg_notify('marker', '')")
        await eventually(lambda: _is_in(heard))
        heard.remove("marker")
        return len(heard)

    async with database.connect() as listener:
        await listener.add_listener(f"inboxd_{table}", lambda *_: heard.append("row"))
        await listener.add_listener("marker", lambda *_: heard.append("marker"))
        yield so_far


async def _is_in(heard: list[str]) -> bool:
    return "marker" in heard


# ------------------------------------------------------------------------------ the triggers


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("flag", "notified"), [(0, 0), (1, 1), (2, 0)])
async def test_flag_decides_about_notifications(
    database: Database, table: HotTable, flag: int, notified: int
) -> None:
    async with daemon_session(database) as session, _heard(database, table) as heard:
        await wakeups.set_flag(session, table, Flag(flag))
        await database.execute(INSERT[table])
        assert await heard() == notified


@pytest.mark.parametrize("table", TABLES)
async def test_rollback_wakes_no_worker(database: Database, table: HotTable) -> None:
    async with daemon_session(database) as session, _heard(database, table) as heard:
        await session.connection.execute(f"BEGIN; {INSERT[table]}; ROLLBACK")
        assert await heard() == 0


@pytest.mark.parametrize("table", TABLES)
async def test_session_may_switch_notifications_off(database: Database, table: HotTable) -> None:
    async with database.connect() as producer, _heard(database, table) as heard:
        await producer.execute("set inboxd.notify = 'off'")
        await producer.execute(INSERT[table])
        # Without a NOTIFY the transaction can be prepared.
        await producer.execute(f"BEGIN; {INSERT[table]}; COMMIT")
        assert await heard() == 0
        await producer.execute("set inboxd.notify = 'on'")
        await producer.execute(INSERT[table])
        assert await heard() == 1


@pytest.mark.parametrize("table", TABLES)
async def test_worker_waits_for_silent_producers(database: Database, table: HotTable) -> None:
    async with (
        daemon_session(database) as worker,
        database.connect() as producer,
        _heard(database, table) as heard,
    ):
        await wakeups.set_flag(worker, table, Flag.SILENT)
        await producer.execute(f"BEGIN; {INSERT[table]}")
        await wakeups.set_flag(worker, table, Flag.NOTIFY)
        assert not await wakeups.no_silent_producer(worker, table)
        await producer.execute("COMMIT")
        assert await wakeups.no_silent_producer(worker, table)
        assert await heard() == 0
        assert await worker.connection.fetchval(f"select count(*) from inboxd.{table}") == 1, (
            "the row is visible"
        )


@pytest.mark.parametrize("table", TABLES)
async def test_producer_that_meets_the_worker_at_the_lock_notifies(
    database: Database, table: HotTable
) -> None:
    async with (
        daemon_session(database) as worker,
        database.connect() as producer,
        _heard(database, table) as heard,
    ):
        await wakeups.set_flag(worker, table, Flag.SILENT)
        async with worker.transaction():
            assert await wakeups.no_silent_producer(worker, table)
            await producer.execute(INSERT[table])
        assert await heard() == 1


async def test_tables_have_separate_wake_ups(database: Database) -> None:
    async with daemon_session(database) as worker, database.connect() as producer:
        await wakeups.set_flag(worker, "events", Flag.SILENT)
        await producer.execute(f"BEGIN; {INSERT['events']}")
        assert await wakeups.no_silent_producer(worker, "commands")
        async with _heard(database, "commands") as heard:
            await database.execute(INSERT["commands"])
            assert await heard() == 1


# ------------------------------------------------------------------------- nothing left behind


class _Taker:
    """Takes rows as a worker does, without plugins: each page is one transaction."""

    def __init__(self, pool: Pool, table: HotTable, chance: random.Random) -> None:
        self._pool = pool
        self._take = (
            f"with due as materialized (select id from inboxd.{table}"
            " where status = 'pending' and run_at <= now() order by id limit 20"
            f" for update skip locked) delete from inboxd.{table} using due"
            f" where {table}.id = due.id returning {table}.id"
        )
        self._look = (
            "select min(extract(epoch from run_at - clock_timestamp()))::float8"
            f" from inboxd.{table} where status = 'pending'"
        )
        self._chance = chance
        self.times = 0

    async def page(self) -> Page:
        async with borrow(self._pool) as session, session.transaction():
            rows = await session.connection.fetch(self._take)
            await anyio.sleep(self._chance.choice([0, 0, 0.001, 0.01]))
        return Page(len(rows), full=len(rows) == 20)

    async def survey(self) -> Survey:
        async with borrow(self._pool) as session:
            next_ = await session.connection.fetchval(self._look)
        return Survey(next_ is not None and next_ <= 0, next_)

    async def finish(self) -> None:
        """Nothing to finish: no row is under way."""

    async def room(self, within: float | None = None) -> None:
        """There is room at any time."""

    def forget(self) -> None:
        """Nothing to forget: it remembers no rows."""


class _Unlucky(_Taker):
    """Inserts a row after a sweep that found none, `times` times."""

    async def survey(self) -> Survey:
        seen = await super().survey()
        if not seen.due and self.times:
            self.times -= 1
            async with borrow(self._pool) as session:
                await session.connection.execute(INSERT["events"])
        return seen


@asynccontextmanager
async def _worker(
    database: Database,
    table: HotTable,
    chance: random.Random,
    peers: int = 0,
    taker: type[_Taker] = _Taker,
) -> AsyncIterator[_Taker]:
    """A processor, its wake-up and its listener; it polls once an hour, so never in these tests."""
    async with daemon_pool(database, 2) as pool, anyio.create_task_group() as tasks:
        wakeup = WakeUp(table, pool, "quiet", 3600.0, Fleet(peers=peers), lambda: None)
        work = taker(pool, table, chance)
        processor = Processor(work, wakeup, Metrics("test"), 1.0)

        async def listen() -> None:
            await wakeups.listen(
                settings_of(database),
                on_wakeup=lambda which: wakeup.wake("notify") if which == table else None,
                on_control=lambda: None,
                on_joining=lambda: None,
                on_connected=lambda: wakeup.wake("reconnect"),
                check_interval=10.0,
            )

        tasks.start_soon(listen)
        tasks.start_soon(processor.run)
        yield work
        tasks.cancel_scope.cancel()


async def _produce(connection: Connection, table: HotTable, chance: random.Random) -> None:
    """Insert in transactions of any length; some roll back, some rows are due later."""
    write = emit if table == "events" else send
    for _ in range(chance.choice([1, 1, 2, 3])):
        await anyio.sleep(chance.choice([0, 0.002, 0.01, 0.03]))
        transaction = connection.transaction()
        await transaction.start()
        # Two pages or more make a worker silence the producers that begin meanwhile.
        ids = await write(connection, chance.choice([1, 1, 1, 60]), "test.noop")
        if chance.random() < 0.1:
            await connection.execute(
                f"update inboxd.{table} set run_at = now() + interval '200 ms' where id = any($1)",
                ids,
            )
        await anyio.sleep(chance.choice([0, 0, 0.01, 0.03, 0.1]))
        if chance.random() < 0.1:
            await transaction.rollback()
        else:
            await transaction.commit()


async def _is_empty(connection: Connection, table: HotTable) -> bool:
    return not await connection.fetchval(f"select exists (select from inboxd.{table})")


async def _leaves_nothing_behind(
    database: Database, table: HotTable, workers: int, rounds: int, seed: int
) -> None:
    """Run bursts of a few producers; after each burst no other insert wakes a worker by chance."""
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        look = await stack.enter_async_context(database.connect())
        producers = [await stack.enter_async_context(database.connect()) for _ in range(4)]
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for _ in range(workers):
            each = random.Random(chance.random())
            await tasks.start(_serve, database, table, each, workers - 1)
        for _ in range(rounds):
            async with anyio.create_task_group() as burst:
                for producer in producers:
                    each = random.Random(chance.random())
                    burst.start_soon(_produce, producer, table, each)
            # Much less than the poll interval of an hour: rows that are left now were left behind.
            await eventually(lambda: _is_empty(look, table))
        tasks.cancel_scope.cancel()


async def _serve(
    database: Database,
    table: HotTable,
    chance: random.Random,
    peers: int,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    async with _worker(database, table, chance, peers):
        task_status.started()
        await anyio.sleep_forever()


async def test_row_inserted_right_after_the_last_sweep_wakes_the_worker(database: Database) -> None:
    async with (
        database.connect() as look,
        _worker(database, "events", random.Random(1), taker=_Unlucky) as work,
    ):
        for times in (0, 1, 1, 1):
            work.times = times
            await emit(look, 100, "test.noop")  # enough pages to make the worker silence producers
            await eventually(lambda: _has_run_out(look, work))


async def _has_run_out(look: Connection, work: _Taker) -> bool:
    return not work.times and await _is_empty(look, "events")


@pytest.mark.parametrize("workers", [1, 2, 3])
async def test_no_row_is_left_behind(database: Database, workers: int) -> None:
    table = TABLES[workers % 2]
    await _leaves_nothing_behind(database, table, workers, rounds=25, seed=workers)


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_no_row_is_left_behind_for_long(
    server: Server | ExternalServer, template: Database
) -> None:
    """Many seeds run side by side, since each mostly waits; a failure names its seed."""
    tables = anyio.CapacityLimiter(6)

    async def one(workers: int, table: HotTable, seed: int) -> None:
        async with tables:
            database = await anyio.to_thread.run_sync(create, server, template.name)
            try:
                await _leaves_nothing_behind(database, table, workers, rounds=250, seed=seed)
            except Exception as error:
                raise AssertionError(f"{workers} workers, {table}, seed {seed}") from error
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(drop, server, database)

    async with anyio.create_task_group() as tasks:
        for seed, workers, table in itertools.product(range(3), (1, 2, 3), TABLES):
            tasks.start_soon(one, workers, table, 100 * seed + workers)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 2, 3])
async def test_workers_leave_no_row_behind(
    database: Database, start_worker: StartWorker, workers: int
) -> None:
    """The same with real worker processes, in both tables at once."""
    chance = random.Random(workers)
    for _ in range(workers):
        await start_worker({"worker": {"poll_interval": "1h"}})
    async with AsyncExitStack() as stack:
        look = await stack.enter_async_context(database.connect())
        producers = [await stack.enter_async_context(database.connect()) for _ in range(4)]
        for _ in range(100):
            async with anyio.create_task_group() as burst:
                for number, producer in enumerate(producers):
                    each = random.Random(chance.random())
                    burst.start_soon(_produce, producer, TABLES[number % 2], each)
            for table in TABLES:
                await eventually(partial(_is_empty, look, table))
