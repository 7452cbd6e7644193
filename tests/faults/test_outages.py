"""The database restarts, ends sessions, goes away: only latency grows."""

from functools import partial
from typing import Any

import pytest

from inboxd.embedded import Server
from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.proxy import Proxy, proxy
from tests.support.rows import ExactlyOnce, Hasty, emit, send
from tests.support.sampled import is_sampled

pytestmark = pytest.mark.anyio

# A handler whose connection breaks spends an attempt; outages must not make dead letters here.
PATIENT: dict[str, dict[str, Any]] = {"types": {"test.ledger": {"retry": {"attempts": 100}}}}


async def _no_crash(database: Database) -> None:
    crashed = await database.fetchval(
        "select (select count(*) from inboxd.commands_history where crashes > 0)"
        " + (select count(*) from inboxd.events_history where crashes > 0)"
        " + (select count(*) from inboxd.workers where state = 'dead')"
    )
    assert crashed == 0, "an outage counts no crash and no death"


async def test_an_outage_longer_than_the_lease_only_delays(
    restartable_server: Server,
    restartable_database: Database,
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
) -> None:
    config = hasty(**PATIENT, maintenance={"samples": "1s"}, worker={"lease": "10s"})
    workers = [await start_worker(config), await start_worker(config)]
    commands = await send(ledger, 10, wait=1)
    # The outage may interrupt this page in one worker or in both; a run alone after it counts no
    # crash.
    events = await emit(ledger, 200, wait=0.02)
    await eventually(lambda: _running(ledger))
    with restartable_server.outage("immediate"):
        for worker in workers:
            await eventually(partial(_lease_age, worker, 11))
            assert (await worker.get("/healthz"))[0] == 200, "a restart would not help"
            assert (await worker.get("/readyz"))[0] == 503
            await worker.logged("work is suspended")
    events += await emit(ledger, 10)
    await exactly_once("event", events)
    await exactly_once("command", commands)
    await _no_crash(ledger)
    for worker in workers:
        await worker.ready()
        await worker.logged("the database answers again")
        # The outage is logged once, or twice if a task tried while another one had connected. A
        # command that is given back has a line of its own.
        assert 1 <= worker.output().count('"the database is unreachable"') <= 2
        tries = [line for line in worker.output().splitlines() if "cannot connect to" in line]
        assert len([line for line in tries if '"command is given back"' not in line]) <= 4
    await eventually(lambda: is_sampled(ledger))


async def _running(database: Database) -> bool:
    found: int = await database.fetchval(
        "select count(*) from inboxd.commands where status = 'running'"
    )
    return found == 10


async def _lease_age(worker: Worker, seconds: float) -> bool:
    return await worker.metric("inboxd_lease_age_seconds") > seconds


# ------------------------------------------------------------------------- single connections


@pytest.mark.direct("nobody listens behind one")
@pytest.mark.parametrize("how", ["terminated", "cut", "half-open"])
async def test_the_listener_reconnects(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, how: str
) -> None:
    with proxy(ledger.dsn) as way:
        config: Config = {
            "database": {"dsn": way.dsn},
            "worker": {"poll_interval": "1h"},
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
        # A worker that died may have left the flag so: the reconnect sets it.
        await ledger.execute("select setval('inboxd.commands_flag', 0)")
        # Emitted while no worker listens: the sweep after the reconnect finds it, not the poll.
        unheard = await emit(ledger, 1)
        await worker.logged("listening again")
        settled = await ledger.fetch("select id from inboxd.events_history")
        await exactly_once("event", [*{*unheard, *(row["id"] for row in settled)}])
        await eventually(lambda: _wants_to_hear(ledger))
        again = await emit(ledger, 1)
        await eventually(lambda: _is_settled(ledger, again[0]))
        worker.kill()


async def _wants_to_hear(database: Database) -> bool:
    flag: int = await database.fetchval("select last_value from inboxd.commands_flag")
    return flag == 1


async def _is_settled(database: Database, row: int) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from inboxd.events_history where id = $1)", row
    )
    return found


@pytest.mark.parametrize("how", ["cut", "half-open"])
async def test_the_heartbeat_reconnects(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    how: str,
) -> None:
    with proxy(ledger.dsn) as way:
        worker = await start_worker(hasty(database={"dsn": way.dsn}, worker={"lease": "60s"}))
        other = await start_worker(hasty(worker={"lease": "60s"}))
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
