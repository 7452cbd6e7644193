"""Each fault, again and again at moments that a seed draws: latency grows, nothing else happens."""

from functools import partial

import anyio
import anyio.to_thread
import pytest

from inboxd.embedded import Server
from inboxd.embedded.server import StopMode
from tests.faults.storm import ROUGH, UNHURRIED, Crew, Storm, seeds
from tests.support import Config, Database, StartWorker, eventually
from tests.support.proxy import proxy
from tests.support.rows import Hasty

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("seed", seeds())
async def test_workers_killed(
    ledger: Database, start_worker: StartWorker, hasty: Hasty, seed: int
) -> None:
    storm = Storm(ledger, seed)
    crew = Crew(start_worker, hasty(**ROUGH), storm.chance)
    await crew.hire(2)
    async with storm.load():
        await storm.strike(4, crew.kill)
    await storm.verify()
    spent = await ledger.fetchval(
        "select greatest((select max(attempts) from inboxd.events_history),"
        " (select max(attempts) from inboxd.commands_history))"
    )
    assert spent == 1, "a death is a crash, not an attempt"


@pytest.mark.parametrize("seed", seeds())
async def test_workers_stopped(
    ledger: Database, start_worker: StartWorker, hasty: Hasty, seed: int
) -> None:
    """SIGSTOP at any moment, in pages and claims too, shorter and longer than the lease."""
    storm = Storm(ledger, seed)
    crew = Crew(start_worker, hasty(**ROUGH), storm.chance)
    await crew.hire(2)
    async with storm.load():
        await storm.strike(3, partial(crew.stop, 6.0))
    await storm.verify()


@pytest.mark.parametrize("seed", seeds())
async def test_sessions_ended(
    ledger: Database, start_worker: StartWorker, hasty: Hasty, seed: int
) -> None:
    """Any of the daemon's: claiming, in a page, a handler's, the heartbeat's, the listener's."""
    storm = Storm(ledger, seed)
    # A session that ends alone may have been ended by its handler, so such events run singly and
    # are kept from the others for the time that a stopped session could last.
    await Crew(start_worker, hasty(**UNHURRIED), storm.chance).hire(2)

    async def end_one() -> None:
        # Where a pooler keeps the sessions, there may be none for a moment.
        sessions = await eventually(
            lambda: ledger.fetch(
                "select pid from pg_stat_activity where datname = current_database()"
                " and application_name like 'inboxd %'"
            )
        )
        pid = storm.chance.choice(sorted(row["pid"] for row in sessions))
        await ledger.execute("select pg_terminate_backend($1)", pid)

    async with storm.load():
        await storm.strike(20, end_one, rows=10, spread=0.1)
    await storm.verify()
    await storm.no_crash()


@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_restarts(
    restartable_server: Server,
    restartable_database: Database,
    ledger: Database,
    start_worker: StartWorker,
    mode: StopMode,
    seed: int,
) -> None:
    storm = Storm(ledger, seed)
    await Crew(start_worker, UNHURRIED, storm.chance).hire(2)

    async def restart() -> None:
        await anyio.to_thread.run_sync(restartable_server.restart, mode)

    async with storm.load():
        await storm.strike(2, restart)
    await storm.verify()
    await storm.no_crash()


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize(
    "purposes",
    [
        pytest.param(["listener"], id="listener"),
        pytest.param(
            ["listener", "heartbeat", "daemon", "handlers"], id="any", marks=pytest.mark.long
        ),
    ],
)
async def test_connections_cut_without_a_word(
    ledger: Database, start_worker: StartWorker, hasty: Hasty, purposes: list[str], seed: int
) -> None:
    """No FIN comes: the worker has to find out by itself; rows are found meanwhile, and soon."""
    storm = Storm(ledger, seed)
    with proxy(ledger.dsn) as way:
        config: Config = hasty(
            types=ROUGH["types"],
            # A handler whose statement is never answered waits as long as it may.
            commands={"timeout": "10s"},
            database={"dsn": way.dsn, "statement_timeout": "1s"},
            worker={"crash_limit": 100, "poll_interval": "20s"},
        )
        crew = Crew(start_worker, config, storm.chance)
        await crew.hire(2)

        async def swallow() -> None:
            way.swallow(storm.chance.choice(purposes))

        async with storm.load():
            await storm.strike(4, swallow)
        await storm.verify()
        for worker in crew.workers:
            worker.kill()
