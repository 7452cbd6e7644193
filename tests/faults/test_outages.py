"""The database restarts, ends sessions, goes away: latency grows, nothing else happens."""

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from inboxd.embedded import Server
from inboxd.embedded.server import StopMode
from inboxd.store.connections import LOST
from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.proxy import Proxy, proxy
from tests.support.rows import ExactlyOnce, Hasty, emit, send

pytestmark = pytest.mark.anyio

# A handler whose connection breaks spends an attempt; outages must not make dead letters here.
PATIENT: dict[str, dict[str, Any]] = {"types": {"test.ledger": {"retry": {"attempts": 100}}}}


class Producer:
    """Writes events and commands until told to stop, whatever becomes of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = False
        self.events: list[int] = []
        self.commands: list[int] = []

    async def run(self) -> None:
        while not self._stopping:
            try:
                async with self._database.connect() as connection:
                    while not self._stopping:
                        # In one transaction, so that the lists hold what was committed, unless the
                        # answer to COMMIT is lost; then the rows are counted at the end.
                        async with connection.transaction():
                            await emit(connection, 3, wait=0.002)
                            await send(connection, 3, wait=0.01)
                        await eventually(self._is_wanted)
            except LOST:
                continue

    async def _is_wanted(self) -> bool:
        """Whether the workers keep up, so that what is asked of them ends in time."""
        backlog: int = await self._database.fetchval(
            "select (select count(*) from inboxd.events where run_at <= now())"
            " + (select count(*) from inboxd.commands where run_at <= now())"
        )
        return self._stopping or backlog < 100

    async def stop(self) -> None:
        """End, and learn what the database holds of it."""
        self._stopping = True
        for table, ids in (("events", self.events), ("commands", self.commands)):
            rows = await self._database.fetch(
                f"select id from inboxd.{table} union all select id from inboxd.{table}_history"
            )
            ids += [row["id"] for row in rows]


@asynccontextmanager
async def _busy(database: Database) -> AsyncIterator[Producer]:
    """A producer that runs meanwhile."""
    producer = Producer(database)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(producer.run)
        yield producer
        await producer.stop()


async def _settled(database: Database, more_than: int) -> bool:
    """Whether work went on: so many more rows are in history."""
    count: int = await database.fetchval(
        "select least((select count(*) from inboxd.events_history),"
        " (select count(*) from inboxd.commands_history))"
    )
    return count > more_than


async def _no_crash(database: Database) -> None:
    crashed = await database.fetchval(
        "select (select count(*) from inboxd.commands_history where crashes > 0)"
        " + (select count(*) from inboxd.workers where state = 'dead')"
    )
    assert crashed == 0, "nobody died"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_under_load(
    restartable_server: Server,
    restartable_database: Database,
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    mode: StopMode,
) -> None:
    await start_worker(PATIENT)
    await start_worker(PATIENT)
    async with _busy(ledger) as producer:
        for settled in (20, 200):
            await eventually(partial(_settled, ledger, settled))
            await anyio.to_thread.run_sync(restartable_server.restart, mode)
        count = await ledger.fetchval("select count(*) from inboxd.commands_history")
        await eventually(lambda: _settled(ledger, count + 20))
    await exactly_once("event", producer.events)
    await exactly_once("command", producer.commands)
    await _no_crash(ledger)


async def test_sessions_ended_at_random(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce
) -> None:
    # A session that ends alone may have been ended by its handler, so such events run singly and
    # are kept from the others for the time that a stopped session could last.
    hurt: Config = {
        **PATIENT,
        "database": {"idle_in_transaction_timeout": "2s"},
        "events": {"timeout": "1s"},
        "worker": {"crash_limit": 50},
    }
    await start_worker(hurt)
    await start_worker(hurt)
    chance = random.Random(7)
    async with _busy(ledger) as producer:
        for settled in range(20, 420, 20):
            await eventually(partial(_settled, ledger, settled))
            sessions = await ledger.fetch(
                "select pid from pg_stat_activity where datname = current_database()"
                " and application_name like 'inboxd %'"
            )
            pid = chance.choice(sorted(row["pid"] for row in sessions))
            await ledger.execute("select pg_terminate_backend($1)", pid)
    await exactly_once("event", producer.events)
    await exactly_once("command", producer.commands)
    await _no_crash(ledger)


async def test_an_outage_longer_than_the_lease(
    restartable_server: Server,
    restartable_database: Database,
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
) -> None:
    workers = [await start_worker(hasty(**PATIENT)), await start_worker(hasty(**PATIENT))]
    commands = await send(ledger, 30, wait=1)
    await eventually(lambda: _running(ledger))
    with restartable_server.outage("immediate"):
        for worker in workers:
            await eventually(partial(_lease_age, worker, 6))
            assert (await worker.get("/healthz"))[0] == 200, "a restart would not help"
            assert (await worker.get("/readyz"))[0] == 503
            assert "work is suspended" in worker.output()
    events = await emit(ledger, 10)
    await exactly_once("event", events)
    await exactly_once("command", commands)
    await _no_crash(ledger)
    for worker in workers:
        await worker.ready()


async def _running(database: Database) -> bool:
    found: int = await database.fetchval(
        "select count(*) from inboxd.commands where status = 'running'"
    )
    return found == 30


async def _lease_age(worker: Worker, seconds: float) -> bool:
    _, page = await worker.get("/metrics")
    match = re.search(r"^inboxd_lease_age_seconds (\S+)$", page, re.MULTILINE)
    assert match is not None, page
    return float(match[1]) > seconds


# ------------------------------------------------------------------------- single connections


@pytest.mark.parametrize("how", ["terminated", "cut", "half-open"])
async def test_the_listener_listens_again(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, how: str
) -> None:
    with proxy(ledger.dsn) as way:
        config: Config = {
            "database": {"dsn": way.dsn},
            "worker": {"poll_interval": "60s"},
            "wakeups": {"listen_check_interval": "500ms"},
        }
        worker = await start_worker(config)
        await exactly_once("event", await emit(ledger, 1))
        match how:
            case "terminated":
                assert await ledger.fetchval(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = 'inboxd listener' and datname = current_database()"
                )
            case "cut":
                assert way.cut("listener") == 1
            case "half-open":
                assert way.swallow("listener") == 1
        # Emitted while nobody hears: the sweep after the reconnect finds it, not the poll.
        unheard = await emit(ledger, 1)
        await worker.logged("listening again")
        first = await ledger.fetch("select id from inboxd.events_history")
        await exactly_once("event", [*unheard, *(row["id"] for row in first)])
        again = await emit(ledger, 1)
        await eventually(lambda: _is_settled(ledger, again[0]))
        worker.kill()


async def _is_settled(database: Database, row: int) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from inboxd.events_history where id = $1)", row
    )
    return found


@pytest.mark.parametrize("how", ["cut", "half-open"])
async def test_the_heartbeat_connects_again(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    how: str,
) -> None:
    with proxy(ledger.dsn) as way:
        worker = await start_worker(hasty(database={"dsn": way.dsn}))
        other = await start_worker(hasty())
        assert (way.swallow if how == "half-open" else way.cut)("heartbeat") == 1
        await eventually(lambda: _is_there(way, "heartbeat"))
        commands = await send(ledger, 20)
        await exactly_once("command", commands)
        await _no_crash(ledger)
        assert "work is suspended" not in worker.output()
        assert await other.stop() == 0
        worker.kill()


async def _is_there(way: Proxy, purpose: str) -> bool:
    return way.count(purpose) == 1
