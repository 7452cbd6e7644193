"""`inboxd rehearse` as a process: interrupted, killed, in a debugger, beside a worker.

One plugin has a handler that takes a resource.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import orjson
import psycopg
import pytest

from tests.support import Database, StartWorker, eventually
from tests.support.locks import lock_awaited
from tests.support.plugins import found, install
from tests.support.rows import create_ledger

pytestmark = pytest.mark.anyio

SHOP = """
from collections.abc import AsyncIterator
from typing import Any

from inboxd import CommandContext, Handlers

handlers = Handlers("shop")


class Till:
    is_open = True


class Never:
    pass


@handlers.lifespan
async def till() -> AsyncIterator[Till]:
    till = Till()
    yield till
    till.is_open = False
    print("till closed", flush=True)


@handlers.lifespan
async def never() -> AsyncIterator[Never]:
    raise OSError("this one is not taken")
    yield Never()


@handlers.command("shop.count")
async def count(command: Any, ctx: CommandContext, till: Till) -> bool:
    return till.is_open
"""

# The handler logs its start; the end of Python itself would take an hour.
SLOW = """
import asyncio
import atexit
import time
from typing import Any

from inboxd import CommandContext, Handlers

handlers = Handlers("slow")
atexit.register(time.sleep, 3600)


@handlers.command("slow.act", timeout="1h")
async def act(command: Any, ctx: CommandContext) -> None:
    print("begun", flush=True)
    if command["blocks"]:
        time.sleep(3600)
    await asyncio.Event().wait()
"""

Start = Callable[..., "subprocess.Popen[str]"]
WHO = "inboxd rehearsal"


@pytest.fixture
def start(database: Database) -> Iterator[Start]:
    """Return a function that starts a rehearsal in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object, plugins: str = "testplugin") -> "subprocess.Popen[str]":
        environment = {k: v for k, v in os.environ.items() if not k.startswith("INBOXD_")}
        environment |= {"INBOXD_DATABASE__DSN": database.dsn, "INBOXD_WORKER__PLUGINS": plugins}
        process = subprocess.Popen(
            [sys.executable, "-m", "inboxd", "rehearse", *map(str, arguments), "--yes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


async def send(database: Database, type_: str, **payload: Any) -> int:
    await create_ledger(database)
    found: int = await database.fetchval(
        "insert into inboxd.commands (type, payload, queue) "
        "values ($1, $2::text::jsonb, 'default') returning id",
        type_,
        orjson.dumps(payload).decode(),
    )
    return found


async def seen(database: Database, state: str) -> None:
    """Wait until the rehearsal's session is in this state; "gone": until it has ended."""

    async def is_there() -> bool:
        found = await database.fetch(
            "select state, wait_event from pg_stat_activity "
            "where application_name = $1 and datname = current_database()",
            WHO,
        )
        if state == "gone":
            return not found
        return any(state in (row["state"], row["wait_event"]) for row in found)

    await eventually(is_there)


async def told(process: "subprocess.Popen[str]", words: str) -> None:
    """Wait until the process has written these words."""
    assert process.stdout is not None
    line = ""
    while words not in line:
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        assert line, f"the process ended without {words!r}"


async def stayed(database: Database) -> list[asyncpg.Record]:
    return await database.fetch("select * from ledger")


async def test_signal_ends_a_rehearsal_without_writes(database: Database, start: Start) -> None:
    row = await send(database, "test.patient", sql="insert into ledger select; select pg_sleep(60)")
    process = start("command", row, "--debugger", "--statement-timeout", "1m")
    await seen(database, "PgSleep")
    process.send_signal(signal.SIGTERM)
    out, _ = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == 128 + signal.SIGTERM
    assert "everything is rolled back" in out
    await seen(database, "gone")
    assert await stayed(database) == []


async def test_killed_rehearsal_leaves_no_writes(database: Database, start: Start) -> None:
    row = await send(database, "test.misbehave", how="hang")
    process = start("command", row, "--debugger")
    await seen(database, "idle in transaction")
    process.kill()
    await seen(database, "gone")
    assert await stayed(database) == []


@pytest.mark.parametrize("signals", [1, 2])
async def test_signals_end_a_rehearsal_at_once(
    database: Database, start: Start, tmp_path: Path, signals: int
) -> None:
    """Signals have their default effect also while Python shuts down."""
    row = await send(database, "slow.act", blocks=signals == 2)
    with found(install(tmp_path / "slow", "slow", SLOW)):
        process = start("command", row, plugins="slow")
        await told(process, "begun")
    process.send_signal(signal.SIGINT)
    await told(process, "a second signal ends the process at once")
    if signals == 2:
        process.send_signal(signal.SIGINT)
    assert await anyio.to_thread.run_sync(process.wait, 30) == 130
    await seen(database, "gone")


async def test_debugger_opens_at_the_plugins_frame(database: Database, start: Start) -> None:
    """The transaction has ended then, so that the user of the debugger holds no lock."""
    row = await send(database, "test.misbehave", how="raise")
    process = start("command", row, "--debugger")
    assert process.stdin is not None
    process.stdin.write("p 'looking at ' + how['how']\nq\n")
    process.stdin.flush()
    await seen(database, "gone")
    out, _ = await anyio.to_thread.run_sync(process.communicate)
    assert "(Pdb) 'looking at raise'" in out
    assert process.returncode == 1


async def test_breakpoint_opens_within_the_transaction(database: Database, start: Start) -> None:
    row = await send(database, "test.misbehave", how="look")
    process = start("command", row, "--debugger")
    await seen(database, "idle in transaction")
    out, _ = await anyio.to_thread.run_sync(
        process.communicate, "p 'looking at ' + how['how']\nc\n"
    )
    assert "(Pdb) 'looking at look'" in out
    assert "it would succeed" in out
    left = start("command", row, "--debugger")
    out, _ = await anyio.to_thread.run_sync(left.communicate, "q\n")
    assert "You left the debugger" in out
    assert out.count("(Pdb)") == 1
    assert await stayed(database) == []


async def test_worker_may_run_the_row_at_the_same_time(
    database: Database, start: Start, start_worker: StartWorker
) -> None:
    wait = "select pg_advisory_xact_lock_shared(42)"
    statement = f"insert into ledger values ('command', 1, ''); {wait}"
    row = await send(database, "test.patient", sql=statement)
    with psycopg.connect(database.dsn) as holder:
        holder.execute("select pg_advisory_lock(42)")
        process = start("command", row, "--lock-timeout", "1m", "--json")
        await lock_awaited(database, who=WHO)
        await start_worker()
        await lock_awaited(database, who="inboxd handlers")
        holder.execute("select pg_advisory_unlock(42)")
        holder.commit()
        out, _ = await anyio.to_thread.run_sync(process.communicate)
    assert '"outcome":"succeeded"' in out

    async def is_settled() -> bool:
        settled = "select status, attempts from inboxd.commands_history where id = $1"
        return [tuple(each) for each in await database.fetch(settled, row)] == [("succeeded", 1)]

    await eventually(is_settled)
    assert len(await stayed(database)) == 1


async def test_resources_of_the_handler_are_opened_and_closed(
    database: Database, start: Start, tmp_path: Path
) -> None:
    row = await send(database, "shop.count")
    with found(install(tmp_path / "shop", "shop", SHOP)):
        process = start("command", row, plugins="shop")
        out, _ = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == 0, out
    assert "till closed" in out
    assert "result:\ntrue" in out


async def test_running_thread_does_not_keep_the_process(database: Database, start: Start) -> None:
    row = await send(database, "test.slow_thread", seconds=600)
    process = start("command", row, "--json")
    out, _ = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == 1
    assert "ran longer than its timeout of 0.3 s" in out


async def test_handler_in_a_debugger_has_no_time_limit(database: Database, start: Start) -> None:
    """The handler's timeout is 0.3 s."""
    row = await send(database, "test.slow_thread", seconds=0.6)
    process = start("command", row, "--debugger")
    out, _ = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == 0, out
    assert "it would succeed" in out
