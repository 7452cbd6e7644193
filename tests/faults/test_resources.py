"""Lifespans and hooks that hang, raise or are interrupted: each end is in time and has a reason."""

from pathlib import Path

import pytest

from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.plugins import found, install

pytestmark = pytest.mark.anyio

HEAD = """
import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

from inboxd import CommandContext, FailedAttempt, Fixed, Handlers, WorkerInfo

handlers = Handlers("shop")


def say(what: str) -> None:
    sys.stderr.write(what + "\\n")  # at once: the log is written by a thread


@handlers.lifespan
async def first() -> AsyncIterator[str]:
    say("first opens")
    yield "first"
    say("first closes")


@handlers.command("shop.pay", retry=Fixed(base="1s", attempts=1))
async def pay(command: Any, ctx: CommandContext, first: str) -> None:
    raise ValueError("no coins")

"""
SERVED: Config = {"worker": {"plugins": ["shop"]}}

LIFESPAN = """
@handlers.lifespan(timeout="300ms")
async def bank() -> AsyncIterator[bytes]:
    say("bank opens")
    {opening}
    yield b""
    {closing}
"""


async def _start(
    start_worker: StartWorker, folder: Path, code: str, *, ready: bool = True
) -> Worker:
    with found(install(folder / "shop", "shop", HEAD + code)):
        return await start_worker(SERVED, ready=ready)


@pytest.mark.parametrize(
    ("opening", "code", "told"),
    [
        ("await asyncio.sleep(3600)", 75, "did not yield within 0.3 s: see what it waits for"),
        ("raise OSError('refused')", 75, "failed when it opened: correct what it names"),
        ("return", 78, "ended without a `yield`: it must yield its resource once."),
    ],
    ids=["hangs", "raises", "never yields"],
)
async def test_a_lifespan_that_does_not_open_fails_the_start(
    database: Database,
    start_worker: StartWorker,
    tmp_path: Path,
    opening: str,
    code: int,
    told: str,
) -> None:
    worker = await _start(
        start_worker, tmp_path, LIFESPAN.format(opening=opening, closing=""), ready=False
    )
    assert await worker.wait() == code
    output = worker.output()
    assert "inboxd: The lifespan shop.bank (" in output
    assert f"{tmp_path}/shop/shop.py:" in output
    assert told in output
    assert output.index("first opens") < output.index("bank opens") < output.index("first closes")
    assert '"ready"' not in output
    assert "Traceback" not in output
    assert "bug in inboxd" not in output
    assert await database.fetchval("select count(*) from inboxd.workers") == 0


async def test_a_stop_while_a_lifespan_opens_is_a_stop(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    code = LIFESPAN.format(opening="await asyncio.sleep(3600)", closing="").replace("300ms", "1h")
    worker = await _start(start_worker, tmp_path, code, ready=False)
    await worker.logged("bank opens")
    assert (await worker.get("/readyz"))[0] == 503
    assert (await worker.get("/healthz"))[0] == 200
    assert await worker.stop() == 0
    assert "first closes" in worker.output()
    assert await database.fetchval("select count(*) from inboxd.workers") == 0


@pytest.mark.parametrize("closing", ["await asyncio.sleep(3600)", "raise OSError('too late')"])
async def test_a_lifespan_that_does_not_close_leaves_the_exit_code_unchanged(
    database: Database, start_worker: StartWorker, tmp_path: Path, closing: str
) -> None:
    code = LIFESPAN.format(opening="pass", closing=closing)
    worker = await _start(start_worker, tmp_path, code)
    assert await worker.stop() == 0
    output = worker.output()
    told = "did not close in time" if "sleep" in closing else "failed when it closed"
    assert told in output
    assert "first closes" in output
    states = await database.fetch("select state from inboxd.workers")
    assert [row["state"] for row in states] == ["stopped"]


async def test_a_lifespan_that_ignores_its_cancellation_does_not_keep_the_process(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    stubborn = """
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
"""
    code = LIFESPAN.format(opening="pass", closing=stubborn.strip().replace("\n    ", "\n    "))
    worker = await _start(start_worker, tmp_path, code)
    assert await worker.stop() == 0
    assert "ignores its cancellation" in worker.output()


BACKGROUND = """
import anyio

hung_up = anyio.Event()
given_back = anyio.Event()


async def keep_alive() -> None:
    await hung_up.wait()
    raise OSError("the bank hung up")


@handlers.lifespan
async def bank() -> AsyncIterator[bytes]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_alive)
        yield b""


@handlers.command("shop.wait")
async def wait(command: Any, ctx: CommandContext, bank: bytes) -> None:
    hung_up.set()
    try:
        await asyncio.sleep(3600)
    finally:
        given_back.set()
"""

# The first call lasts until the worker shuts down.
TOLD = """
@handlers.on_error
async def told(attempt: FailedAttempt) -> None:
    await given_back.wait()
    say(f"told of {attempt.id}")


@handlers.on_stop
async def stopped(worker: WorkerInfo, first: str) -> None:
    say("told of the end")
"""


async def test_a_lost_resource_ends_the_worker_which_releases_its_commands(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = await _start(start_worker, tmp_path, BACKGROUND)
    await database.execute("insert into inboxd.commands (type, queue) values ('shop.wait', 'a')")
    assert await worker.wait() == 75
    output = worker.output()
    assert "inboxd: The lifespan shop.bank (" in output
    assert "failed while the worker ran" in output
    assert "OSError: the bank hung up" in output
    assert output.index('"gave back commands"') < output.index("first closes")
    [row] = await database.fetch("select status, attempts, crashes from inboxd.commands")
    assert tuple(row) == ("pending", 0, 0)
    states = await database.fetch("select state from inboxd.workers")
    assert [row["state"] for row in states] == ["stopped"]


async def test_hooks_get_waiting_failures_and_the_end_when_a_resource_is_lost(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = await _start(start_worker, tmp_path, BACKGROUND + TOLD)
    write = "insert into inboxd.commands (type, queue) select $1, 'a' from generate_series(1, $2)"
    await database.execute(write, "shop.pay", 3)

    async def all_dead() -> bool:
        query = "select count(*) from inboxd.commands where status = 'failed'"
        return bool(await database.fetchval(query) == 3)

    await eventually(all_dead)
    await database.execute(write, "shop.wait", 1)
    assert await worker.wait() == 75
    output = worker.output()
    ends = ["told of 1", "told of 2", "told of 3", "told of the end", "first closes"]
    places = [output.index(each) for each in ends]
    assert places == sorted(places)
    assert "were not reported before the end" not in output


async def test_a_second_stop_does_not_wait_for_lifespans(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    endless = "await asyncio.sleep(3600)"
    code = LIFESPAN.format(opening="pass", closing=f"say('bank closes'); {endless}")
    worker = await _start(start_worker, tmp_path, code.replace("300ms", "1h"))
    worker.process.terminate()
    await worker.logged("bank closes")
    worker.process.terminate()
    assert await worker.wait() == 143, "the second SIGTERM did not end it: closing may take an hour"


HOOK = """
@handlers.on_error
async def told(attempt: FailedAttempt) -> None:
    {does}
"""


@pytest.mark.parametrize(
    "does", ["raise OSError('the tracker is gone')", "await asyncio.sleep(3600)"]
)
async def test_a_bad_hook_delays_no_settlement(
    database: Database, start_worker: StartWorker, tmp_path: Path, does: str
) -> None:
    worker = await _start(start_worker, tmp_path, HOOK.format(does=does))
    rows = 2_000
    await database.execute(
        "insert into inboxd.commands (type, queue) select 'shop.pay', 'default' "
        "from generate_series(1, $1)",
        rows,
    )

    async def all_dead() -> bool:
        query = "select count(*) from inboxd.commands where status = 'failed' and attempts = 1"
        return bool(await database.fetchval(query) == rows)

    await eventually(all_dead)
    series = 'inboxd_hook_calls_total{{hook="on_error",outcome="{}"}}'

    async def counted(outcome: str) -> float:
        return await worker.metric(series.format(outcome))

    if "raise" in does:

        async def all_called() -> bool:
            return await counted("failed") + await counted("dropped") == rows

        await eventually(all_called)
        assert worker.output().count('"a hook failed"') == 1
    else:
        # The queue is full, and one call is running; those before it have failed after 10 s each.
        async def all_others_are_counted() -> bool:
            return await counted("dropped") + await counted("failed") >= rows - 1_001

        await eventually(all_others_are_counted)
        assert await counted("dropped") <= rows - 1_001
        assert worker.output().count("hooks are too slow") == 1
        worker.kill()
        return
    assert await worker.stop() == 0
