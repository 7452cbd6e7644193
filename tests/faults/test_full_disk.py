"""A full disk of the database: rows wait until there is room, and none is lost."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from inboxd.embedded import Server
from tests.faults.storm import UNHURRIED, Crew, Storm, seeds
from tests.support import (
    Database,
    StartWorker,
    create_migrated,
    eventually,
    temporary_server,
)
from tests.support.disk import fill_up, move_tables, small_disk

pytestmark = pytest.mark.anyio

TABLES = ("events", "commands", "bodies", "events_history", "commands_history")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A file system of 100 MB."""
    with small_disk() as folder:
        yield folder


@pytest.fixture
def restartable_server(disk: Path) -> Iterator[Server]:
    """A server whose tables are on that disk; its WAL is on another one."""
    with temporary_server() as server:
        yield server


@pytest.fixture
def restartable_database(restartable_server: Server, disk: Path) -> Database:
    """A migrated database on that server."""
    database = create_migrated(restartable_server)
    anyio.run(move_tables, database, restartable_server, disk, TABLES)
    return database


@pytest.mark.parametrize("seed", seeds(long=3))
async def test_a_disk_that_fills_up_repeatedly_loses_no_row(
    ledger: Database,
    restartable_database: Database,
    disk: Path,
    start_worker: StartWorker,
    seed: int,
) -> None:
    storm = Storm(ledger, seed, padding="x" * 1000)
    crew = Crew(start_worker, UNHURRIED, storm.chance)
    await crew.hire(2)

    async def fill() -> None:
        """Leave no block free until a worker has failed to write, and for some time longer."""
        before = _met(crew)
        async with ledger.connect() as producer:
            for _ in range(60):  # enough that settling them needs room that is missing
                await storm.write(producer)
        ballast = disk / "ballast"
        await anyio.to_thread.run_sync(fill_up, ballast)
        try:
            # Workers may not notice it, if a vacuum has just made room within the tables.
            with suppress(AssertionError):
                await eventually(lambda: _meets(crew, before), within=5)
            # Not a wait: the time for which the disk is full varies.
            await anyio.sleep(storm.chance.uniform(0, 1))
        finally:
            ballast.unlink()

    async with storm.load():
        await storm.strike(2, fill, rows=50)
    await storm.verify()
    await storm.no_crash()
    assert _met(crew), "no worker met the full disk"


async def _meets(crew: Crew, before: int) -> bool:
    return _met(crew) > before


def _met(crew: Crew) -> int:
    """The number of errors "disk full" in the workers' logs."""
    return sum(worker.output().count("could not extend file") for worker in crew.workers)
