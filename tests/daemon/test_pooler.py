"""Behind a pooler in transaction mode: no state is kept in sessions, nothing is prepared.

Through a real PgBouncer; and with the same settings on a direct connection, which needs no
PgBouncer. `make test-pooler` runs the other tests of whole workers behind one too.
"""

import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.daemon.inbox import Inbox
from tests.support import Database, Worker, eventually
from tests.support.pooler import SESSIONS, TRANSACTIONS_ONLY, Way, pgbouncer
from tests.support.rows import emit
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


@pytest.fixture
def pooler(own: Inbox) -> Iterator[Way]:
    """The way to the test's database through PgBouncer."""
    with pgbouncer(own.database.dsn) as way:
        yield way


@pytest.fixture(params=["direct", "PgBouncer"])
def way(request: pytest.FixtureRequest, own: Inbox) -> Way:
    """Both ways to the test's database."""
    if request.param == "direct":
        return Way(own.database.dsn, TRANSACTIONS_ONLY)
    way: Way = request.getfixturevalue("pooler")
    return way


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[list[Worker]]:
    """Workers that a test has started, killed at its end."""
    workers: list[Worker] = []
    yield workers
    for worker in workers:
        worker.kill()
        # Captured, so shown only if the test failed.
        sys.stdout.write(worker.output())


async def _start(crew: list[Worker], folder: Path, way: Way, **sections: dict[str, Any]) -> Worker:
    worker = Worker(folder, way.dsn, way.over(sections))
    crew.append(worker)
    await worker.ready()
    return worker


async def _effects(database: Database) -> dict[str, tuple[int, int]]:
    """Per kind, the number of effects and of their rows. Raises Violation if an effect repeats."""
    counts = await database.fetch(
        "select kind, count(*) as effects, count(distinct row_id) as rows from ledger group by kind"
    )
    with safety():
        assert all(row["effects"] == row["rows"] for row in counts), f"effects twice: {counts}"
    return {row["kind"]: (row["effects"], row["rows"]) for row in counts}


async def test_everything_works_without_sessions(
    own: Inbox, way: Way, crew: list[Worker], tmp_path: Path
) -> None:
    worker = await _start(crew, tmp_path, way)
    await emit(own.database, 20, sends=1)

    async def all_done() -> bool:
        return await _effects(own.database) == {"event": (20, 20), "command": (20, 20)}

    await eventually(all_done)
    flag = await own.database.fetchval("select last_value from inboxd.events_flag")
    assert flag == 2, "the wake-up flag is off"
    assert (await worker.stop()) == 0


async def test_workers_that_share_few_sessions_do_each_thing_once(
    own: Inbox, pooler: Way, crew: list[Worker], tmp_path: Path
) -> None:
    """Two workers may open more connections than there are sessions; one worker is killed."""
    lease = {"lease": "3s", "heartbeat_interval": "700ms"}
    victim, survivor = [await _start(crew, tmp_path, pooler, worker=lease) for _ in range(2)]
    await emit(own.database, 200, sends=2, wait=0.002)
    commands = await own.write_many("command", "test.ledger", [{"wait": 0.05}] * 100)

    async def half_done() -> bool:
        return len(await own.notes(*commands)) > 20

    await eventually(half_done)
    victim.kill()

    async def all_done() -> bool:
        return await _effects(own.database) == {"event": (200, 200), "command": (500, 500)}

    await eventually(all_done)
    await own.succeeded("command", *commands)
    assert (
        await own.database.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid()"
        )
        <= SESSIONS
    )
    assert (await survivor.stop()) == 0


async def test_a_handler_leaves_nothing_in_its_session(
    own: Inbox, pooler: Way, crew: list[Worker], tmp_path: Path
) -> None:
    worker = await _start(crew, tmp_path, pooler)
    leave = (
        "set search_path = nowhere; set statement_timeout = '7s'; "
        "select pg_advisory_lock_shared(7); create temp table left_behind (); "
        "declare c cursor with hold for select 1; "
    )
    # An event's handler may also leave a role; a command that drops its role cannot settle.
    page = f"{leave} set role inboxd_producer"
    kept = await own.write("event", "test.misbehave", {"how": "run sql", "sql": page})
    undone = await own.write("event", "test.misbehave", {"how": "run sql", "sql": f"{page}; fail"})
    ran = await own.write_many("command", "test.misbehave", [{"how": "run sql", "sql": leave}] * 20)
    failed = await own.write(
        "command", "test.misbehave", {"how": "run sql", "sql": f"{leave} fail"}
    )
    await own.succeeded("event", kept)
    await own.dead("event", undone)
    await own.succeeded("command", *ran)
    await own.dead("command", failed)
    assert (await worker.stop()) == 0
    seen = await _every_session(pooler)
    assert len(seen) > 1, "the worker used several sessions"
    assert {tuple(row.values())[1:] for row in seen} == {
        ('"$user", public', "0", "postgres", None, 0, 0)
    }


async def _every_session(pooler: Way) -> list[asyncpg.Record]:
    """The state of each session that the pooler keeps."""
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(SESSIONS):
            connection = await asyncpg.connect(pooler.dsn, statement_cache_size=0)
            stack.callback(connection.terminate)
            # The transaction stays open, so that the next connection gets another session.
            await connection.execute("begin")
            found += await connection.fetch(
                "select pg_backend_pid(), current_setting('search_path'), "
                "current_setting('statement_timeout'), current_user::text, "
                "to_regclass('pg_temp.left_behind')::text, "
                "(select count(*) from pg_cursors where name = 'c'), "
                "(select count(*) from pg_locks where locktype = 'advisory' "
                "and pid = pg_backend_pid())"
            )
    assert len({row[0] for row in found}) == SESSIONS
    return found
