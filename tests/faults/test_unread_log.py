"""A log that is not read: the worker goes on, and ends normally, by itself or on a signal."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import Config, Database, StartWorker, eventually
from tests.support.plugins import found, install
from tests.support.rows import ExactlyOnce, Hasty, emit, send

pytestmark = pytest.mark.anyio

# Loaded by one worker, found as an installed plugin is.
ENDS = '''
import asyncio
import time

from inboxd import CommandContext, Event, EventContext, Handlers

handlers = Handlers("ends")


@handlers.event("ends.cancel")
async def cancel(event: Event[dict], ctx: EventContext) -> None:
    """End the worker by an error of its own."""
    asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)


@handlers.command("ends.stubborn")
async def stubborn(command: dict, ctx: CommandContext) -> None:
    """Swallow every cancellation."""
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            time.sleep(0.001)
'''


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe that is full after the first page of lines, and is not read."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield writing
    os.close(writing)
    os.close(reading)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[None]:
    """Let workers find the plugin `ENDS`."""
    with found(install(tmp_path / "ends", "ends", ENDS)):
        yield


async def test_a_worker_whose_log_is_not_read_goes_on(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    unread: int,
) -> None:
    """Its lines wait in memory, its rows do not, and one SIGTERM ends it."""
    worker = await start_worker(hasty(log={"level": "debug"}), output=unread)
    await exactly_once("command", await send(ledger, 300))
    await exactly_once("event", await emit(ledger, 300))
    assert (await worker.get("/readyz"))[0] == 200
    assert await worker.stop() == 0


async def test_a_blocked_loop_ends_the_worker(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    unread: int,
) -> None:
    """Its warning and its reason are not read; the bound holds nevertheless."""
    settings = hasty(worker={"stall_timeout": "1500ms"}, log={"level": "debug"})
    worker = await start_worker(settings, output=unread)
    await exactly_once("command", await send(ledger, 100))
    await emit(ledger, 1, "test.block", seconds=3600)
    assert await worker.wait() == 70


@pytest.mark.usefixtures("ends")
async def test_a_second_term_ends_the_worker(
    database: Database, start_worker: StartWorker, unread: int
) -> None:
    settings: Config = {
        "worker": {"plugins": ["ends"], "drain_timeout": "1h"},
        "log": {"level": "debug"},
    }
    worker = await start_worker(settings, output=unread)
    await send(database, 100, "ends.stubborn")

    async def all_run() -> bool:
        return bool(
            await database.fetchval(
                "select count(*) > 5 from inboxd.commands where status = 'running'"
            )
        )

    await eventually(all_run)
    worker.process.terminate()

    async def drains() -> bool:
        return (await worker.get("/readyz"))[0] == 503

    await eventually(drains)
    worker.process.terminate()
    assert await worker.wait() == 143


@pytest.mark.usefixtures("ends")
async def test_an_error_ends_the_worker(
    database: Database, start_worker: StartWorker, unread: int
) -> None:
    """The error that ends it is not read either."""
    settings: Config = {"worker": {"plugins": ["ends"]}, "log": {"level": "debug"}}
    worker = await start_worker(settings, output=unread)
    await send(database, 100, "ends.nobody")
    await emit(database, 1, "ends.cancel")
    assert await worker.wait() == 70
