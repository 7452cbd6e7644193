"""Each fault, repeated at moments that a seed draws: only latency grows."""

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
async def test_killed_workers_lose_and_repeat_nothing(
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
async def test_frozen_workers_lose_and_repeat_nothing(
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
async def test_ended_sessions_lose_and_repeat_nothing(
    ledger: Database, start_worker: StartWorker, hasty: Hasty, seed: int
) -> None:
    """Any session: of a claim, a page, a handler, the heartbeat, the listener."""
    storm = Storm(ledger, seed)
    # A session that ends alone may have been ended by its handler, so its events run singly, and
    # other workers leave them alone for as long as a stopped session could last.
    await Crew(start_worker, hasty(**UNHURRIED), storm.chance).hire(2)

    async def end_one() -> None:
        # Behind a pooler there may be no session for a moment.
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
async def test_server_restarts_lose_and_repeat_nothing(
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
async def test_silently_cut_connections_lose_and_repeat_nothing(
    ledger: Database, start_worker: StartWorker, hasty: Hasty, purposes: list[str], seed: int
) -> None:
    """No FIN arrives: the worker must notice by itself; rows are handled soon nevertheless."""
    storm = Storm(ledger, seed)
    with proxy(ledger.dsn) as way:
        config: Config = hasty(
            types=ROUGH["types"],
            # A handler whose statement is never answered waits until its timeout.
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
