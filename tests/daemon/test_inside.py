"""A worker inside another program: it runs in the program's event loop, and leaves no trace."""

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import pytest
from structlog.testing import capture_logs

from inboxd import CommandContext, Handlers, WorkerInfo
from inboxd.client import Inbox
from inboxd.daemon import worker
from inboxd.engine import hooks
from inboxd.errors import DatabaseError, LifespanFailed, PluginError
from inboxd.settings import Settings
from tests.support import Database, eventually

pytestmark = pytest.mark.anyio

inbox = Inbox()
LAST = "ALTER DATABASE {} ALLOW_CONNECTIONS {}"


def settings_of(database: Database, **section: object) -> Settings:
    fast = {"heartbeat_interval": "1s", "poll_interval": "1s", **section}
    return Settings.model_validate({"database": {"dsn": database.dsn}, "worker": fast})


def plugin() -> Handlers:
    """A command that returns a result, and one that takes as long as its payload says."""
    handlers = Handlers("guest")

    @handlers.command("guest.double")
    async def double(command: int, ctx: CommandContext) -> int:
        return 2 * command

    @handlers.command("guest.wait")
    async def wait(command: float, ctx: CommandContext) -> str:
        await anyio.sleep(command)
        return "waited"

    return handlers


async def test_a_worker_runs_in_the_loop_of_the_block_and_leaves(database: Database) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    handlers = list(logging.getLogger().handlers)
    others = set(threading.enumerate())
    async with worker(settings_of(database), handlers=[plugin()]), database.connect() as connection:
        sent = await inbox.send(connection, "guest.double", 21)
        assert await inbox.result(connection, sent.command_id) == 42
        assert logging.getLogger().handlers == handlers
        now = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
        assert now == before
    assert (
        await database.fetchval("SELECT count(*) FROM inboxd.workers WHERE ended_at IS NULL") == 0
    )
    left = {each.name for each in threading.enumerate() if each not in others}
    assert [name for name in left if "inboxd" in name] == []


async def test_running_commands_may_finish_at_the_end_of_the_block(database: Database) -> None:
    async with database.connect() as connection:
        async with worker(settings_of(database), handlers=[plugin()]):
            sent = await inbox.send(connection, "guest.wait", 0.5)

            async def runs() -> bool:
                running = "SELECT status = 'running' FROM inboxd.commands"
                return bool(await database.fetchval(running))

            await eventually(runs)
        assert await inbox.result(connection, sent.command_id, timeout="0s") == "waited"


async def test_a_command_beyond_the_drain_timeout_is_released(database: Database) -> None:
    async with database.connect() as connection:
        async with worker(settings_of(database, drain_timeout="50ms"), handlers=[plugin()]):
            await inbox.send(connection, "guest.wait", 60)

            async def runs() -> bool:
                running = "SELECT status = 'running' FROM inboxd.commands"
                return bool(await database.fetchval(running))

            await eventually(runs)
        assert await database.fetchval("SELECT status FROM inboxd.commands") == "pending"


async def test_an_error_of_the_block_is_raised_unchanged(database: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        async with worker(settings_of(database), handlers=[plugin()]):
            _ = 1 / 0
    assert (
        await database.fetchval("SELECT count(*) FROM inboxd.workers WHERE ended_at IS NULL") == 0
    )


async def test_a_failed_start_names_the_cause(database: Database) -> None:
    nowhere = Settings.model_validate({"database": {"dsn": "postgresql://127.0.0.1:1/x"}})
    with pytest.raises(DatabaseError, match="cannot connect"):
        async with worker(nowhere, handlers=[plugin()]):
            raise AssertionError
    with pytest.raises(PluginError, match=r"guest\.double"):
        async with worker(settings_of(database), handlers=[plugin(), plugin()]):
            raise AssertionError


async def test_the_error_that_ends_the_block_is_raised_before_those_it_causes(
    database: Database,
) -> None:
    guest, lost = Handlers("guest"), anyio.Event()

    async def keep_alive() -> None:
        await lost.wait()
        raise OSError("the bank hung up")

    @guest.lifespan
    async def bank() -> AsyncIterator[bytes]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_alive)
            yield b""

    async def serve() -> None:
        lost.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            raise ValueError("what the program was doing") from None

    with pytest.raises(LifespanFailed, match="the bank hung up"):
        async with worker(settings_of(database), handlers=[guest]):
            await serve()


async def test_a_worker_waits_for_the_end_of_an_outage(database: Database) -> None:
    async with worker(settings_of(database), handlers=[plugin()]):
        others = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert await database.fetchval(others) > 0
        async with database.connect() as connection:
            sent = await inbox.send(connection, "guest.double", 4)
            assert await inbox.result(connection, sent.command_id) == 8


async def test_a_hook_that_ignores_its_cancellation_is_named_and_left(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "_STOPPING", 0.05)
    monkeypatch.setattr(hooks, "_PATIENCE", 0.05)
    let_go = anyio.Event()
    asyncio.get_running_loop().call_later(5, let_go.set)  # otherwise this test would not end
    guest = Handlers("guest")

    @guest.on_stop
    async def stays(worker: WorkerInfo) -> None:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    with capture_logs() as lines:
        async with worker(settings_of(database), handlers=[guest]):
            pass
    assert not let_go.is_set()
    let_go.set()
    reasons = [line["reason"] for line in lines if line["log_level"] == "critical"]
    assert len(reasons) == 1
    assert reasons[0].endswith(".stays")
