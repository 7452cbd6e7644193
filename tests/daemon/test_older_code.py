"""A rolling deploy: older workers and producers beside the newest ones, on the newest schema.

The older code is a commit of the repository's history (`tests.support.older`).
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from inboxd.embedded import Server
from tests.support import Config, Database, ExternalServer, StartWorker, create, drop, eventually
from tests.support.older import unpack
from tests.support.plugins import found, install
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
ROUNDS = 20
# The rows that producers write and handlers send; events with a dedup key count once.
EVENTS = {"both.fact": 2 * 2 * ROUNDS + ROUNDS, "both.turn": 2 * ROUNDS, "both.item": 2 * ROUNDS}
MADE = 2 * len(range(0, ROUNDS, 3))
COMMANDS = {
    "both.act": 2 * (2 * ROUNDS + 3 * 5) + 3 * MADE,
    "both.keyed": 2 * ROUNDS,
    "both.limited": 2 * ROUNDS,
    "both.step": 2 * 3 * 2,
    "both.after": 2 * 3 * 2 + MADE,
    "both.tick": 1,
}
CONFIG: Config = {
    "history": {},  # the older code does not know how far ahead the tests' partitions go
    "worker": {"plugins": ["both"]},
    "queues": {"limited": {"total_concurrency": 3}},
    "schedules": {"tick": {"cron": "0 0 1 1 *", "command": "both.tick"}},
}
TABLES = """
create table effects (kind text, row_id bigint, code text);
create table mended (mended boolean);
insert into mended values (false);
"""


@pytest.fixture
def database(server: Server | ExternalServer) -> Iterator[Database]:
    """A database without a schema."""
    fresh = create(server)
    yield fresh
    drop(server, fresh)


@pytest.fixture
def newest(tmp_path: Path) -> Path:
    """The folder of the handlers for the newest code, which is the installed inboxd."""
    return install(tmp_path / "handlers", "both", (HERE / "older_handlers.py").read_text())


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The folder of the older code."""
    return unpack(tmp_path / "older")


def start(database: Database, *arguments: object) -> subprocess.Popen[bytes]:
    """Start Python with the code that `found` has chosen, not that of the working folder."""
    return subprocess.Popen(
        [sys.executable, "-P", *map(str, arguments)],
        env={**os.environ, "INBOXD_DATABASE__DSN": database.dsn},
    )


async def finish(*processes: subprocess.Popen[bytes]) -> None:
    """Wait until all processes have ended with 0."""

    async def all_have() -> bool:
        return None not in [process.poll() for process in processes]

    await eventually(all_have)
    assert [process.returncode for process in processes] == [0] * len(processes)


async def test_older_and_newest_code_work_side_by_side(
    database: Database,
    older: Path,
    newest: Path,
    start_worker: StartWorker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    with found(older, newest):
        await finish(start(database, "-m", "inboxd", "migrate", "--yes"))
        await database.execute(TABLES)
        await start_worker(CONFIG)
    with found(newest):
        await finish(start(database, "-m", "inboxd", "migrate", "--yes"))
        await start_worker(CONFIG)
    with found(older, newest):
        await start_worker(CONFIG)  # a worker that starts on the newest schema

    # Every kind of row, from producers with either code; the schedule is due.
    await database.execute("update inboxd.schedules set next_at = date_trunc('year', now())")
    producer = HERE / "older_producer.py"
    with found(older, newest):
        old = start(database, producer, database.dsn, "old", ROUNDS)
    await finish(old, start(database, producer, database.dsn, "new", ROUNDS))
    await eventually(lambda: dead_letters(database, 2))

    # Operators with either code replay a dead letter.
    first, second = await dead_letters(database, 2)
    await database.execute("update mended set mended = true")
    replay = ("-m", "inboxd", "commands", "replay")
    with found(older, newest):
        old = start(database, *replay, first)
    await finish(old, start(database, *replay, second))

    await eventually(lambda: all_ended(database))
    await verify(database, {first, second}, older)


async def dead_letters(database: Database, count: int) -> list[int]:
    """The ids of the dead letters, if there are exactly `count`."""
    rows = await database.fetch("select id from inboxd.commands where status = 'failed'")
    return [row["id"] for row in rows] if len(rows) == count else []


async def all_ended(database: Database) -> bool:
    """Whether all rows and batches have ended."""
    left: int = await database.fetchval(
        "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands) + "
        "(select count(*) from inboxd.batches where finished_at is null)"
    )
    return left == 0


async def verify(database: Database, replayed: set[int], older: Path) -> None:
    """Assert that each row succeeded, and took effect once; either code ran some of each kind."""
    effects = await database.fetch("select kind, row_id, code from effects")
    for kind, expected in (("event", EVENTS), ("command", COMMANDS)):
        rows = await database.fetch(f"select id, type, status from inboxd.{kind}s_history")
        ended = Counter(row["id"] for row in rows if row["status"] == "succeeded")
        others = {row["id"] for row in rows if row["id"] not in ended}
        with safety():
            assert Counter(row["type"] for row in rows if row["id"] in ended) == expected
            assert others == (replayed if kind == "command" else set())
            assert Counter(row["row_id"] for row in effects if row["kind"] == kind) == ended
        codes = {Path(row["code"]) for row in effects if row["kind"] == kind}
        assert sorted(code.is_relative_to(older) for code in codes) == [False, True]
    batches = await database.fetch("select status from inboxd.batches")
    assert Counter(row["status"] for row in batches) == {"succeeded": 2 * 3 * 2 + MADE}
