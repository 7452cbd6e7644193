"""A worker that froze during a statement: the locks of its session are freed.

The driver sends a statement to be prepared, and runs it with another message; the server's time
limits do not count between the two. A paused reader behaves as a stopped process: its kernel
accepts and acknowledges data until its buffers are full.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial

import asyncpg
import pytest

from inboxd.store import workers
from inboxd.store.connections import session_name
from inboxd.store.session import connect
from tests.support import Database, StartWorker, eventually
from tests.support.rows import ExactlyOnce, Hasty, daemon_session, emit, settings_of

pytestmark = pytest.mark.anyio

# With an argument, a statement is prepared in a message of its own; without, there is only one.
PREPARED = ("select $1::text", "")
# More than all buffers on the way hold.
UNREAD = ("select repeat('x', 1000000) from generate_series(1, 100)",)
NOW = timedelta(0)


@asynccontextmanager
async def stalled(
    database: Database, purpose: str, statement: tuple[str, ...], *before: str
) -> AsyncIterator[int]:
    """A session that froze in a transaction, during `statement`; yields its pid."""
    session = await connect(settings_of(database), purpose, plans={})
    pid: int = session.connection.get_server_pid()
    await session.connection.execute("begin")
    for each in before:
        await session.connection.execute(each)
    session.connection._transport.pause_reading()  # type: ignore[attr-defined]  # the process is stopped
    under_way = asyncio.create_task(session.connection.execute(*statement, timeout=600))
    try:
        await eventually(partial(_waits_for_its_client, database, pid))
        yield pid
    finally:
        session.connection.terminate()
        with suppress(asyncpg.PostgresConnectionError, asyncpg.InterfaceError):
            await under_way


async def _waits_for_its_client(database: Database, pid: int) -> bool:
    waits: bool = await database.fetchval(
        "select state = 'active' and wait_event_type = 'Client' from pg_stat_activity"
        " where pid = $1",
        pid,
    )
    return waits


async def _ended(database: Database, patience: timedelta = NOW) -> list[int]:
    """End sessions that have been frozen for this long; return their pids."""
    async with daemon_session(database) as session:
        rows = await workers.end_stalled(session, "inboxd ", patience, patience)
    return [row["pid"] for row in rows]


@pytest.mark.parametrize("statement", [PREPARED, UNREAD], ids=["prepared", "unread"])
async def test_a_page_of_a_frozen_worker_runs_elsewhere(
    ledger: Database,
    start_worker: StartWorker,
    hasty: Hasty,
    exactly_once: ExactlyOnce,
    statement: tuple[str, ...],
) -> None:
    ids = await emit(ledger, 3)
    page = "select from inboxd.events for update"
    async with stalled(ledger, "daemon", statement, page) as pid:
        worker = await start_worker(hasty(database={"statement_timeout": "2s"}))
        await exactly_once("event", ids)
        await worker.logged("a session that stopped half-way is ended")
        assert f'"pid":{pid}' in worker.output()
        assert await worker.metric('inboxd_reaped_total{kind="session"}') == 1


async def test_sessions_that_wait_for_their_client_normally_are_left_alone(
    database: Database,
) -> None:
    """A handler that reads slowly, a COPY, foreign sessions; and sessions within the time limit."""
    copied = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        await copied.wait()
        yield b"1\n"

    async with (
        stalled(database, "handlers", UNREAD) as slow,
        stalled(database, "daemon", PREPARED) as stopped,
        database.connect() as foreign,
        daemon_session(database) as copying,
        copying.transaction(),
    ):
        await copying.connection.execute("create temp table copied (id int)")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(copying.connection.copy_to_table("copied", source=slowly()))
            await eventually(
                partial(_waits_for_its_client, database, copying.connection.get_server_pid())
            )
            async with foreign.transaction():
                assert await _ended(database, timedelta(hours=1)) == []
                assert await _ended(database) == [stopped]
            copied.set()
        left = await database.fetchval("select count(*) from pg_stat_activity where pid = $1", slow)
        assert left == 1


@pytest.mark.parametrize("name", ["inböxd", "x" * 63])
async def test_a_frozen_session_is_found_by_any_application_name(
    database: Database, name: str
) -> None:
    settings = settings_of(database).model_copy(update={"application_name": name})
    session = await connect(settings, "daemon", plans={})
    try:
        await session.connection.prepare(
            "select $1::text"
        )  # in its own transaction, between the messages
        async with daemon_session(database) as other:
            rows = await workers.end_stalled(other, session_name(settings, ""), NOW, NOW)
        assert [row["pid"] for row in rows] == [session.connection.get_server_pid()]
        assert rows[0]["application"].endswith(" daemon")
    finally:
        session.connection.terminate()
