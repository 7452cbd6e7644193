"""A batch of a million commands is filled in bounded memory, on both sides.

The kernel reports the memory: VmHWM is the peak of a process.
"""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.support import Database, StartWorker

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(900)]

ROWS = 1_000_000
_MEGABYTE = 1024  # /proc counts in kB

# A process of its own, so that its memory is only the client's; it prints its peaks.
PRODUCER = """
import asyncio, json, sys
from pathlib import Path
import asyncpg
from inboxd.client import Inbox, NewCommand

held = []

def hold():
    lines = Path("/proc/self/status").read_text().splitlines()
    held.append(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")))

def members(rows):
    for n in range(rows):
        if n == rows // 10:
            hold()
        yield NewCommand("test.noop", {"n": n, "text": "x" * 100}, queue="default")

async def main(dsn, rows):
    connection = await asyncpg.connect(dsn)
    then = NewCommand("test.noop", queue="default")
    sent = await Inbox().send_batch(connection, "large", members(rows), then=then)
    hold()
    print(json.dumps([sent.id, *held]))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def _most(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def test_a_million_members_fill_a_batch_in_bounded_memory(
    database: Database, start_worker: StartWorker
) -> None:
    """Meanwhile a worker handles the members that are there already."""
    worker = await start_worker({"log": {"level": "info"}})
    command = [sys.executable, "-c", PRODUCER, database.dsn, str(ROWS)]
    ran = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, check=False)
    )
    assert ran.returncode == 0, ran.stderr
    batch, early, client = json.loads(ran.stdout)
    daemon = _most(worker.process.pid)
    print(f"client: {early} kB after a tenth, {client} kB at most; worker: {daemon} kB")  # noqa: T201 - figures to look at
    assert client < 100 * _MEGABYTE
    assert client - early < 10 * _MEGABYTE, "memory grows with the rows sent"
    assert daemon < 100 * _MEGABYTE
    (row,) = await database.fetch("select * from inboxd.batches where id = $1", batch)
    assert (row["size"], row["failed"]) == (ROWS, 0)
    assert row["closed_at"] is not None
    there = await database.fetchval(
        "select (select count(*) from inboxd.commands where batch_id = $1)"
        " + (select count(*) from inboxd.commands_history where batch_id = $1)",
        batch,
    )
    assert there == ROWS
    assert await database.fetchval("select count(*) from inboxd.commands_history") > 0
