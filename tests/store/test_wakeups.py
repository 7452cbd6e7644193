"""Wake-ups: what the triggers say at each flag, and that no row is left behind."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskStatus

from inboxd.runtime.processor import Page, Processor, Survey
from inboxd.runtime.wakeup import Fleet, Mode, WakeUp
from inboxd.store import wakeups
from inboxd.store.connections import Connection
from inboxd.store.pools import Pool, borrow
from inboxd.store.wakeups import Flag, Place
from inboxd.telemetry.metrics import Metrics
from tests.support import Database, eventually
from tests.support.rows import SQL, daemon_pool, daemon_session, emit, send, settings_of

pytestmark = pytest.mark.anyio

PLACES: list[Place] = ["events", "commands"]
INSERT = {
    "events": "insert into inboxd.events (type) values ('test.noop')",
    "commands": "insert into inboxd.commands (queue, type) values ('default', 'test.noop')",
}


@asynccontextmanager
async def _heard(database: Database, place: Place) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """What was notified of a table; a marker tells that all of it was heard."""
    heard: list[str] = []

    async def so_far() -> int:
        await database.execute("select pg_notify('marker', '')")
        await eventually(lambda: _is_in(heard))
        heard.remove("marker")
        return len(heard)

    async with database.connect() as listener:
        await listener.add_listener(f"inboxd_{place}", lambda *_: heard.append("row"))
        await listener.add_listener("marker", lambda *_: heard.append("marker"))
        yield so_far


async def _is_in(heard: list[str]) -> bool:
    return "marker" in heard


# ------------------------------------------------------------------------------ the triggers


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("flag", "notified"), [(0, 0), (1, 1), (2, 0)])
async def test_the_flag_decides(database: Database, place: Place, flag: int, notified: int) -> None:
    async with daemon_session(database) as session, _heard(database, place) as heard:
        await wakeups.set_flag(session, SQL, place, Flag(flag))
        await database.execute(INSERT[place])
        assert await heard() == notified


@pytest.mark.parametrize("place", PLACES)
async def test_a_rollback_wakes_nobody(database: Database, place: Place) -> None:
    async with daemon_session(database) as session, _heard(database, place) as heard:
        await session.execute(f"BEGIN; {INSERT[place]}; ROLLBACK")
        assert await heard() == 0


@pytest.mark.parametrize("place", PLACES)
async def test_a_session_may_be_silent(database: Database, place: Place) -> None:
    async with database.connect() as producer, _heard(database, place) as heard:
        await producer.execute("set inboxd.notify = 'off'")
        await producer.execute(INSERT[place])
        # What cannot be prepared after a NOTIFY can be now.
        await producer.execute(f"BEGIN; {INSERT[place]}; COMMIT")
        assert await heard() == 0
        await producer.execute("set inboxd.notify = 'on'")
        await producer.execute(INSERT[place])
        assert await heard() == 1


@pytest.mark.parametrize("place", PLACES)
async def test_a_silent_producer_is_waited_for(database: Database, place: Place) -> None:
    async with (
        daemon_session(database) as worker,
        database.connect() as producer,
        _heard(database, place) as heard,
    ):
        await wakeups.set_flag(worker, SQL, place, Flag.SILENT)
        await producer.execute(f"BEGIN; {INSERT[place]}")
        await wakeups.set_flag(worker, SQL, place, Flag.NOTIFY)
        assert not await wakeups.no_silent_producer(worker, SQL, place)
        await producer.execute("COMMIT")
        assert await wakeups.no_silent_producer(worker, SQL, place)
        assert await heard() == 0
        assert await worker.fetchval(f"select count(*) from inboxd.{place}") == 1, "it is visible"


@pytest.mark.parametrize("place", PLACES)
async def test_who_meets_the_worker_at_the_lock_notifies(database: Database, place: Place) -> None:
    async with (
        daemon_session(database) as worker,
        database.connect() as producer,
        _heard(database, place) as heard,
    ):
        await wakeups.set_flag(worker, SQL, place, Flag.SILENT)
        async with worker.transaction():
            assert await wakeups.no_silent_producer(worker, SQL, place)
            await producer.execute(INSERT[place])
        assert await heard() == 1


async def test_the_tables_wake_apart(database: Database) -> None:
    async with daemon_session(database) as worker, database.connect() as producer:
        await wakeups.set_flag(worker, SQL, "events", Flag.SILENT)
        await producer.execute(f"BEGIN; {INSERT['events']}")
        assert await wakeups.no_silent_producer(worker, SQL, "commands")
        async with _heard(database, "commands") as heard:
            await database.execute(INSERT["commands"])
            assert await heard() == 1


# ------------------------------------------------------------------------- nothing left behind


class _Taker:
    """Takes rows as a worker does, without plugins: each page is one transaction."""

    def __init__(self, pool: Pool, place: Place, chance: random.Random) -> None:
        self._pool = pool
        self._take = (
            f"with due as materialized (select id from inboxd.{place}"
            " where status = 'pending' and run_at <= now() order by id limit 20"
            f" for update skip locked) delete from inboxd.{place} using due"
            f" where {place}.id = due.id returning {place}.id"
        )
        self._look = (
            "select min(extract(epoch from run_at - clock_timestamp()))::float8"
            f" from inboxd.{place} where status = 'pending'"
        )
        self._chance = chance

    async def page(self) -> Page:
        async with borrow(self._pool) as connection, connection.transaction():
            rows = await connection.fetch(self._take)
            await anyio.sleep(self._chance.choice([0, 0, 0.001, 0.01]))
        return Page(len(rows), full=len(rows) == 20)

    async def survey(self) -> Survey:
        async with borrow(self._pool) as connection:
            next_ = await connection.fetchval(self._look)
        return Survey(next_ is not None and next_ <= 0, next_)

    async def room(self) -> None:
        """There is always room."""

    def forget(self) -> None:
        """Nothing is remembered."""


@asynccontextmanager
async def _worker(
    database: Database, place: Place, mode: Mode, chance: random.Random
) -> AsyncIterator[Processor]:
    """A processor, its wake-up and its listener; it polls once a minute, so not in these tests."""
    async with daemon_pool(database, 2) as pool, anyio.create_task_group() as tasks:
        fleet = Fleet(peers=2)
        wakeup = WakeUp(place, pool, SQL, mode, 60.0, fleet)
        processor = Processor(_Taker(pool, place, chance), wakeup, Metrics("test"), 1.0)

        async def listen() -> None:
            await wakeups.listen(
                settings_of(database),
                SQL,
                on_wakeup=lambda which: wakeup.wake("notify") if which == place else None,
                on_connected=lambda: wakeup.wake("reconnect"),
                check_interval=10.0,
            )

        tasks.start_soon(listen)
        tasks.start_soon(processor.run)
        yield processor
        tasks.cancel_scope.cancel()


async def _produce(database: Database, place: Place, rows: int, chance: random.Random) -> None:
    """Insert rows one by one in transactions of any length; some roll back, some are due later."""
    write = emit if place == "events" else send
    async with database.connect() as connection:
        for _ in range(rows):
            transaction = connection.transaction()
            await transaction.start()
            ids = await write(connection, chance.choice([1, 1, 1, 30]), "test.noop")
            if chance.random() < 0.2:
                await connection.execute(
                    f"update inboxd.{place} set run_at = now() + interval '300 ms'"
                    " where id = any($1)",
                    ids,
                )
            await anyio.sleep(chance.choice([0, 0, 0, 0.001, 0.02, 0.2]))
            if chance.random() < 0.1:
                await transaction.rollback()
            else:
                await transaction.commit()
            # Pauses, so that workers go to sleep again and again.
            await anyio.sleep(chance.choice([0, 0, 0, 0.02, 0.1]))


async def _is_empty(connection: Connection, place: Place) -> bool:
    return not await connection.fetchval(f"select exists (select from inboxd.{place})")


async def _leaves_nothing_behind(
    database: Database, place: Place, workers: int, rows: int, seed: int
) -> None:
    chance = random.Random(seed)
    async with anyio.create_task_group() as tasks, database.connect() as connection:
        for _ in range(workers):
            await tasks.start(_serve, database, place, random.Random(chance.random()))
        async with anyio.create_task_group() as producers:
            for _ in range(4):
                each = random.Random(chance.random())
                producers.start_soon(_produce, database, place, rows, each)
        # Far less than the poll of a minute: what is left now was left behind.
        await eventually(lambda: _is_empty(connection, place), within=8)
        tasks.cancel_scope.cancel()


async def _serve(
    database: Database,
    place: Place,
    chance: random.Random,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    async with _worker(database, place, "quiet", chance):
        task_status.started()
        await anyio.sleep_forever()


@pytest.mark.parametrize("workers", [1, 2, 3])
async def test_no_row_is_left_behind(database: Database, workers: int) -> None:
    place = PLACES[workers % 2]
    await _leaves_nothing_behind(database, place, workers, rows=60, seed=workers)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("workers", [1, 2, 3])
async def test_no_row_is_left_behind_for_long(database: Database, workers: int, seed: int) -> None:
    place = PLACES[seed % 2]
    await _leaves_nothing_behind(database, place, workers, rows=500, seed=100 * seed + workers)
