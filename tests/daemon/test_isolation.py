"""State that a handler leaves behind fails this handler or is removed; no later row meets it.

Every test has neighbours after the bad row, in the same page or on the same runner.
"""

import asyncio
import inspect
import threading

import anyio
import pytest

from inboxd import BlockingCommandContext, Handlers
from inboxd.engine.execution import Executions
from inboxd.errors import HandlerTimeout
from inboxd.registry.plugins import build_registry
from inboxd.telemetry.monitor import LoopMonitor
from inboxd_testplugin import leaving
from tests.daemon.inbox import KINDS, Inbox, Kind, errors_of
from tests.support import Config, StartWorker, Worker, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """One command at a time, so that all commands use one runner, one after the other."""
    return {"commands": {"concurrency": 1}}


async def _neighbours(inbox: Inbox, kind: Kind, how: str) -> tuple[int, list[int]]:
    """Insert a bad row between two good ones, in one page; wait until the good ones succeed."""
    hows = ("nothing", how, "nothing")
    first, bad, last = await inbox.write_many(kind, "test.leave", [{"how": h} for h in hows])
    await inbox.succeeded(kind, first, last)
    return bad, [first, last]


async def _errors(inbox: Inbox, kind: Kind, row_id: int) -> list[str]:
    row = await inbox.dead(kind, row_id)
    assert row["attempts"] == 2
    return [each["error"] for each in errors_of(row)]


# ---------------------------------------------------------------------------------- statements


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("statement beside a failure", "DivisionByZeroError"),
        ("statement", "UsageError: the handler ended while one of its statements"),
        ("forgotten task", "UsageError: ctx.connection.fetchval(…) at "),
    ],
)
async def test_an_unfinished_statement_fails_its_handler(
    inbox: Inbox, kind: Kind, how: str, error: str
) -> None:
    bad, _ = await _neighbours(inbox, kind, how)
    assert all(error in each for each in await _errors(inbox, kind, bad))
    assert await _long_statements(inbox) == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_statements_side_by_side_queue(inbox: Inbox, kind: Kind) -> None:
    row_id, _ = await _neighbours(inbox, kind, "statements side by side")
    await inbox.succeeded(kind, row_id)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_statement_that_is_never_awaited_is_named(
    inbox: Inbox, worker: Worker, kind: Kind
) -> None:
    bad, _ = await _neighbours(inbox, kind, "forgotten await")
    source = inspect.getsource(leaving).splitlines()
    line = next(n for n, text in enumerate(source, 1) if text.endswith("# the mistake"))
    [error, again] = await _errors(inbox, kind, bad)
    assert error == again
    assert error.startswith(
        f"UsageError: ctx.connection.execute(…) at {leaving.__file__}:{line}: it was never awaited"
    )
    assert "RuntimeWarning" not in worker.output()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_statement_that_is_cancelled_before_it_begins_does_no_harm(
    inbox: Inbox, kind: Kind
) -> None:
    row_id, _ = await _neighbours(inbox, kind, "cancelled before it began")
    await inbox.succeeded(kind, row_id)


async def test_a_thread_is_stopped_in_the_middle_of_a_statement(inbox: Inbox) -> None:
    bad = await inbox.write("event", "test.leave_thread", {"seconds": 30})
    good = await inbox.write("event", "test.leave_thread", {"seconds": 0})
    assert all("HandlerTimeout" in each for each in await _errors(inbox, "event", bad))
    await inbox.succeeded("event", good)
    assert await _long_statements(inbox) == 0


async def _long_statements(inbox: Inbox) -> int:
    count: int = await inbox.database.fetchval(
        "select count(*) from pg_stat_activity where state = 'active' "
        "and query like 'select pg_sleep%' and datname = current_database()"
    )
    return count


# ------------------------------------------------------------------------------- cancellations


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancellation_that_is_never_taken_back_fails_its_handler(
    inbox: Inbox, kind: Kind
) -> None:
    """The timeout of the next handler remains that handler's, and does not end the daemon."""
    hows = ("cancellation", "hang", "nothing")
    left, hung, good = await inbox.write_many(kind, "test.leave", [{"how": h} for h in hows])
    assert all("as a library says" in each for each in await _errors(inbox, kind, left))
    assert all("HandlerTimeout" in each for each in await _errors(inbox, kind, hung))
    await inbox.succeeded(kind, good)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancellation_that_arrives_after_the_handler_does_no_harm(
    inbox: Inbox, kind: Kind
) -> None:
    row_id, _ = await _neighbours(inbox, kind, "unmet cancellation")
    await inbox.succeeded(kind, row_id)


# ----------------------------------------------------------------------------------- variables


@pytest.mark.parametrize("kind", KINDS)
async def test_context_variables_do_not_leak(inbox: Inbox, kind: Kind) -> None:
    row_id, good = await _neighbours(inbox, kind, "variable")
    await inbox.succeeded(kind, row_id)
    assert [note.split()[-1] for _, _, note in await inbox.notes(*good)] == ["clean", "clean"]


# ------------------------------------------------------------------------------- session state


@pytest.mark.parametrize("kind", KINDS)
async def test_session_state_does_not_leak(inbox: Inbox, kind: Kind) -> None:
    """Settings, role, locks, cursors, channels: restored for the next row, in the same page too."""
    row_id, good = await _neighbours(inbox, kind, "session")
    later = await inbox.write(kind, "test.leave", {"how": "nothing"})
    await inbox.succeeded(kind, row_id, later)
    first, *others = [note for _, _, note in await inbox.notes(*good, later)]
    assert first == '"$user", public 30s postgres clean'
    assert others == [first, first]


@pytest.mark.parametrize("kind", KINDS)
async def test_locks_of_a_failed_handler_are_released(inbox: Inbox, kind: Kind) -> None:
    bad, good = await _neighbours(inbox, kind, "locks")
    await _errors(inbox, kind, bad)
    assert all("4711" not in note for _, _, note in await inbox.notes(*good))
    held = "select count(*) from pg_locks where locktype = 'advisory' and objid = 4711"
    assert await inbox.database.fetchval(held) == 0


# ------------------------------------------------------------------------------------- threads


@pytest.fixture
def executions() -> Executions:
    """Two threads for all synchronous handlers."""

    def refuse(reason: str) -> None:
        raise AssertionError(reason)

    monitor = LoopMonitor(stall_timeout=60, on_stall=refuse, on_lag=lambda _: None)
    return Executions(monitor, threads=2, processes=1, patience=60, on_stubborn=refuse)


async def test_threads_beyond_their_timeout_keep_their_place(executions: Executions) -> None:
    handlers, go_on = Handlers("threads"), threading.Event()
    began: list[int] = []

    @handlers.command("test.hang")
    def hang(command: int, ctx: BlockingCommandContext) -> None:
        began.append(command)
        go_on.wait()

    handler = build_registry([("threads", handlers)]).commands["test.hang"]

    async def run(n: int, seconds: float) -> object:
        task = asyncio.current_task()
        return await executions.run(task, "command", n, handler, n, None, seconds)

    async def overrun(n: int) -> None:
        with pytest.raises(HandlerTimeout, match="ran longer than its timeout"):
            await run(n, 3600)

    async def both_began() -> bool:
        return sorted(began) == [1, 2]

    try:
        async with anyio.create_task_group() as tasks:
            for n in (1, 2):
                tasks.start_soon(overrun, n)
            await eventually(both_began)
            for n in (1, 2):
                executions.limits["command", n].extend(-3600)  # its time is up
        for n in (3, 4):
            with pytest.raises(HandlerTimeout, match="all 2 threads are held, 2 of them by"):
                await run(n, 0.05)
        assert sorted(began) == [1, 2]
    finally:
        go_on.set()
    for n in (5, 6, 7):
        await run(n, 30)
    assert began[2:] == [5, 6, 7]


async def test_a_handler_may_extend_the_timeout_of_its_statement(
    own: Inbox, start_worker: StartWorker
) -> None:
    """The statement may outlast the daemon's statement_timeout and the driver's own timeout."""
    await start_worker({"database": {"statement_timeout": "1s"}})
    more = "set local statement_timeout = 0; select pg_sleep(6.5)"
    row_id = await own.write("command", "test.patient", {"sql": more})
    await own.succeeded("command", row_id)
