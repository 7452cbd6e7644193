"""Ends of a worker, and how it goes on: never silently, never endlessly, with the right reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import Config, Database, StartWorker, eventually
from tests.support.plugins import found, install
from tests.support.rows import ExactlyOnce, Hasty, emit, send

pytestmark = pytest.mark.anyio

# Loaded by one worker, found as an installed plugin is.
STRAY = '''
import asyncio
import time

from inboxd import CommandContext, Event, EventContext, Handlers

handlers = Handlers("stray")


@handlers.event("stray.cancel")
async def cancel(event: Event[dict], ctx: EventContext) -> None:
    """Leave a cancellation behind that hits its task after the handler's end."""
    asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)


@handlers.command("stray.stubborn")
async def stubborn(command: dict, ctx: CommandContext) -> None:
    """Swallow every cancellation."""
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            time.sleep(0.001)
'''


@pytest.fixture
def stray(tmp_path: Path) -> Iterator[Config]:
    """Settings of a worker that loads `STRAY`."""
    with found(install(tmp_path / "stray", "stray", STRAY)):
        yield {"worker": {"plugins": ["stray"], "drain_timeout": "1h"}}


async def test_a_worker_that_ends_without_a_signal_exits_with_70(
    database: Database, start_worker: StartWorker, stray: Config
) -> None:
    worker = await start_worker(stray)
    await emit(database, 1, "stray.cancel")
    assert await worker.wait() == 70
    assert "though it was not told to stop" in worker.output()


async def test_a_page_that_takes_too_long_is_halved(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce
) -> None:
    await ledger.execute(
        "create function slow() returns trigger language plpgsql as"
        " 'begin perform pg_sleep(0.05); return new; end';"
        "create trigger slow before insert on inboxd.events_history"
        " for each row execute function slow()"
    )
    ids = await emit(ledger, 16)
    await start_worker({"database": {"statement_timeout": "500ms"}})
    await exactly_once("event", ids)


async def test_a_second_term_ends_a_handler_that_swallows_its_cancellation(
    database: Database, start_worker: StartWorker, stray: Config
) -> None:
    worker = await start_worker(stray)
    await send(database, 1, "stray.stubborn")
    await eventually(lambda: _is_running(database))
    worker.process.terminate()
    await worker.logged("draining")
    worker.process.terminate()
    assert await worker.wait() == 143
    assert "a second SIGTERM" in worker.output()


async def _is_running(database: Database) -> bool:
    return bool(await database.fetchval("select status = 'running' from inboxd.commands"))


async def test_a_dead_worker_comes_back_when_the_database_does(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    worker = await start_worker(hasty())
    await ledger.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise 'not now' using errcode = 'lock_not_available'; end $$;"
        "create trigger refuse before insert on inboxd.workers"
        " for each row execute function refuse();"
        "update inboxd.workers set state = 'dead', ended_at = now()"
    )
    await worker.logged("the worker waits until the database answers")
    assert (await worker.get("/readyz"))[0] == 503
    await ledger.execute("drop trigger refuse on inboxd.workers")
    await worker.ready()
    await exactly_once("event", await emit(ledger, 3))
    assert await worker.stop() == 0
