"""The database's disk is full: what cannot be written waits, and nothing is lost."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from inboxd.embedded import Server
from tests.faults.storm import ROUGH, Crew, Storm, seeds
from tests.support import (
    Database,
    StartWorker,
    create_migrated,
    eventually,
    shared_folder,
    temporary_server,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def disk() -> Iterator[Path]:
    """A file system of 100 MB."""
    with shared_folder() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(folder)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here: that needs root")
        yield folder
        subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S607


@pytest.fixture
def restartable_server(disk: Path) -> Iterator[Server]:
    """A server whose tables are on that disk; its log of changes is on another one."""
    with temporary_server() as server:
        yield server


@pytest.fixture
def restartable_database(restartable_server: Server, disk: Path) -> Database:
    """A migrated database on it."""
    database = create_migrated(restartable_server)
    owner = (restartable_server.home / "cluster").stat()
    os.chown(disk, owner.st_uid, owner.st_gid)
    anyio.run(database.execute, f"create tablespace small location '{disk}'")
    for table in ("events", "commands", "bodies", "events_history", "commands_history"):
        anyio.run(_move, database, table)
    return database


async def _move(database: Database, table: str) -> None:
    """Move a table, its partitions, and all of their indexes to the small disk."""
    relations = await database.fetch(
        "with recursive part(oid) as (select $1::regclass::oid union all"
        " select inhrelid from pg_inherits join part on inhparent = part.oid)"
        " select oid::regclass::text as name, 'table' as kind from part union all"
        " select indexrelid::regclass::text, 'index' from pg_index join part"
        " on indrelid = part.oid",
        f"inboxd.{table}",
    )
    for row in relations:
        await database.execute(f"alter {row['kind']} {row['name']} set tablespace small")


@pytest.mark.parametrize("seed", seeds(long=3))
async def test_a_disk_that_is_full_again_and_again(
    ledger: Database,
    restartable_database: Database,
    disk: Path,
    start_worker: StartWorker,
    seed: int,
) -> None:
    storm = Storm(ledger, seed, padding="x" * 1000)
    crew = Crew(start_worker, {"types": ROUGH["types"]}, storm.chance)
    await crew.hire(2)

    async def fill() -> None:
        """Leave no block free until a worker has met it, and some time longer."""
        before = _met(crew)
        async with ledger.connect() as producer:
            for _ in range(60):  # enough that settling it needs room that is not there
                await storm.write(producer)
        ballast = disk / "ballast"
        await anyio.to_thread.run_sync(_fill, ballast)
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


def _fill(ballast: Path) -> None:
    """Take every block there is, at once."""
    with ballast.open("wb") as file:
        taken = 0
        for size in (1 << 24, 1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), taken, size)
                    taken += size
