"""The database's disk is full: what cannot be written waits, and nothing is lost."""

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
    """A server whose tables are on that disk; its log of changes is on another one."""
    with temporary_server() as server:
        yield server


@pytest.fixture
def restartable_database(restartable_server: Server, disk: Path) -> Database:
    """A migrated database on it."""
    database = create_migrated(restartable_server)
    anyio.run(move_tables, database, restartable_server, disk, TABLES)
    return database


@pytest.mark.parametrize("seed", seeds(long=3))
async def test_a_disk_that_is_full_again_and_again(
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
        """Leave no block free until a worker has met it, and some time longer."""
        before = _met(crew)
        async with ledger.connect() as producer:
            for _ in range(60):  # enough that settling it needs room that is not there
                await storm.write(producer)
        ballast = disk / "ballast"
        await anyio.to_thread.run_sync(fill_up, ballast)
        try:
            # Not met at all where a vacuum has just made room within the tables.
            with suppress(AssertionError):
                await eventually(lambda: _meets(crew, before), within=5)
            # Not a wait for anything: how long it stays full is what varies.
            await anyio.sleep(storm.chance.uniform(0, 1))
        finally:
            ballast.unlink()

    async with storm.load():
        await storm.strike(2, fill, rows=50)
    await storm.verify()
    await storm.no_crash()
    assert _met(crew), "the disk was full when something had to be written"


async def _meets(crew: Crew, before: int) -> bool:
    return _met(crew) > before


def _met(crew: Crew) -> int:
    """How often the workers were told that the disk is full."""
    return sum(worker.output().count("could not extend file") for worker in crew.workers)
