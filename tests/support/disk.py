"""A small file system for tests of a full disk.

    with small_disk() as disk:
        await move_tables(database, server, disk, ["events"])
        fill_up(disk / "ballast")

It needs root.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from inboxd.embedded import Server
from tests.support.databases import Database, shared_folder


@contextmanager
def small_disk() -> Iterator[Path]:
    """A file system of 100 MB; skips the test where none can be mounted."""
    with shared_folder() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(folder)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here: that needs root")
        yield folder
        subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S607


async def move_tables(
    database: Database, server: Server, disk: Path, tables: Sequence[str], space: str = "small"
) -> None:
    """Move tables, their partitions and all their indexes to that disk."""
    owner = (server.home / "cluster").stat()
    os.chown(disk, owner.st_uid, owner.st_gid)
    await database.execute(f"create tablespace {space} location '{disk}'")
    for table in tables:
        relations = await database.fetch(
            "with recursive part(oid) as (select $1::regclass::oid union all"
            " select inhrelid from pg_inherits join part on inhparent = part.oid)"
            " select oid::regclass::text as name, 'table' as kind from part union all"
            " select indexrelid::regclass::text, 'index' from pg_index join part"
            " on indrelid = part.oid",
            f"inboxd.{table}",
        )
        for row in relations:
            await database.execute(f"alter {row['kind']} {row['name']} set tablespace {space}")


def fill_up(ballast: Path) -> None:
    """Allocate every free block of the file's disk."""
    with ballast.open("wb") as file:
        taken = 0
        for size in (1 << 24, 1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), taken, size)
                    taken += size
