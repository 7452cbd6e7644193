"""Hooks are called when their moment comes, and cannot delay or change anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import anyio
import pytest
from structlog.testing import capture_logs

from inboxd.api.handlers import Handlers
from inboxd.api.hooks import FailedAttempt, WorkerInfo
from inboxd.engine import hooks as module
from inboxd.engine.hooks import Hooks, failed_attempt
from inboxd.engine.resources import Resources
from inboxd.model.outcome import Dead, explain
from inboxd.store.workers import WorkerIdentity
from inboxd.telemetry.metrics import Metrics
from tests.support import eventually

pytestmark = pytest.mark.anyio

ME = WorkerInfo(id=uuid4(), name="worker-1", version="1.0")


def failed(n: int = 0) -> FailedAttempt:
    return FailedAttempt(
        error=ValueError(str(n)),
        message=f"ValueError: {n}",
        fingerprint="f",
        outcome="retrying",
        retry_at=datetime.now(UTC),
        kind="command",
        id=n,
        uuid=uuid4(),
        type="shop.pay",
        topic=None,
        queue="default",
        plugin="shop",
        handler="shop.pay",
        attempt=1,
        correlation_id="c",
        tenant=None,
        worker=ME,
    )


class Calls:
    """Hooks that are called, with the metrics that count them."""

    def __init__(self, handlers: Handlers) -> None:
        declared = handlers.build()
        assert not declared.problems
        self.metrics = Metrics("1.0")
        self.hooks = Hooks(declared.hooks, Resources(given={str: "given"}), self.metrics)

    def count(self, outcome: str, hook: str = "on_error") -> float:
        labels = {"hook": hook, "outcome": outcome}
        return self.metrics.registry.get_sample_value("inboxd_hook_calls_total", labels) or 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Hooks]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.hooks.run)
            yield self.hooks
            await self.hooks.finish(ME)


@pytest.fixture
def handlers() -> Handlers:
    return Handlers("shop")


async def test_each_moment_has_its_hooks_in_order(handlers: Handlers) -> None:
    log: list[Any] = []

    @handlers.lifespan
    async def name() -> AsyncIterator[str]:
        yield "real"

    @handlers.on_stop
    async def stopped(worker: WorkerInfo) -> None:
        log.append(("stopped", worker.name))

    @handlers.on_error
    async def told(attempt: FailedAttempt, name: str) -> None:
        log.append((attempt.id, name))

    @handlers.on_start
    async def started(worker: WorkerInfo) -> None:
        log.append(("started", worker.id))

    calls = Calls(handlers)
    async with calls.running() as hooks:
        hooks.start(ME)
        hooks.report(failed(1))
        hooks.report(failed(2))
    assert log == [("started", ME.id), (1, "given"), (2, "given"), ("stopped", "worker-1")]
    assert (calls.count("succeeded"), calls.count("succeeded", "on_stop")) == (2, 1)


async def test_a_hook_that_fails_is_logged_once_until_it_succeeds(handlers: Handlers) -> None:
    told: list[int] = []

    @handlers.on_error
    async def fails(attempt: FailedAttempt) -> None:
        if attempt.id == 2:
            return
        if attempt.id % 2:
            raise SystemExit(attempt.id)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if attempt.id != 4:  # else the cancellation comes when it has ended
            await asyncio.sleep(1)

    @handlers.on_error
    async def works(attempt: FailedAttempt) -> None:
        told.append(attempt.id)

    async def has_told(n: int) -> bool:
        return told[-1:] == [n]

    calls = Calls(handlers)
    with capture_logs() as lines:
        async with calls.running() as hooks:
            for n in (0, 1, 2, 3, 4):
                hooks.report(failed(n))
            await eventually(lambda: has_told(4))
            hooks.report(failed(5))
            await eventually(lambda: has_told(5))
    assert told == [0, 1, 2, 3, 4, 5]
    assert [line["reason"] for line in lines] == [
        "CancelledError",
        "SystemExit: 3",
        "SystemExit: 5",
    ]
    assert all(line["hook"].endswith(".fails") for line in lines)
    assert (calls.count("failed"), calls.count("succeeded")) == (4, 8)


async def test_a_hook_that_hangs_costs_its_time_only(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CALL", 0.05)
    monkeypatch.setattr(module, "_MOST_WAITING", 3)
    stopped: list[WorkerInfo] = []

    @handlers.on_error
    async def hangs(attempt: FailedAttempt) -> None:
        await anyio.sleep(3600)

    @handlers.on_stop
    async def stop(worker: WorkerInfo) -> None:
        stopped.append(worker)

    calls = Calls(handlers)
    with capture_logs() as lines:
        async with calls.running() as hooks:
            for n in range(10):
                hooks.report(failed(n))
    assert (calls.count("dropped"), calls.count("failed")) == (7, 3)
    assert stopped == [ME]
    assert [line["event"] for line in lines] == [
        "hooks are too slow: failed attempts are not reported",
        "a hook failed",
    ]
    assert lines[1]["reason"] == "it took longer than 0.05 s"


async def test_reports_that_wait_at_the_end_are_dropped_and_counted(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REMAINING", 0.05)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    let_go = anyio.Event()

    @handlers.on_error
    async def ignores_its_cancellation(attempt: FailedAttempt) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    calls = Calls(handlers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(calls.hooks.run)
        for n in range(3):
            calls.hooks.report(failed(n))
        await calls.hooks.finish(ME)
        assert calls.count("dropped") == 2
        assert [name.rpartition(".")[2] for name in calls.hooks.left] == [
            "ignores_its_cancellation"
        ]
        let_go.set()


async def test_an_on_stop_that_ignores_its_cancellation_is_left_behind(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STOPPING", 0.05)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    let_go = anyio.Event()

    @handlers.on_stop
    async def ignores_its_cancellation(worker: WorkerInfo) -> None:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    asyncio.get_running_loop().call_later(5, let_go.set)  # else this test would not end
    calls = Calls(handlers)
    async with calls.running() as hooks:
        pass
    let_go.set()
    assert [name.rpartition(".")[2] for name in hooks.left] == ["ignores_its_cancellation"]


async def test_without_hooks_nothing_is_kept(handlers: Handlers) -> None:
    calls = Calls(handlers)
    assert not calls.hooks.want_failures
    for n in range(5_000):
        calls.hooks.report(failed(n))
    assert calls.count("dropped") == 0


async def test_a_slow_hook_does_not_delay_reports(handlers: Handlers) -> None:
    go_on = anyio.Event()
    told: list[int] = []

    @handlers.on_error
    async def slow(attempt: FailedAttempt) -> None:
        await go_on.wait()
        told.append(attempt.id)

    calls = Calls(handlers)

    async def all_told() -> bool:
        return told == [0, 1]

    async with calls.running() as hooks:
        hooks.report(failed(0))
        hooks.report(failed(1))
        assert told == []
        go_on.set()
        await eventually(all_told)


def test_the_message_masks_passwords_as_the_stored_error_does() -> None:
    me = WorkerIdentity(ME.id, ME.name, "h", 1, ME.version, (), (), (), "")
    columns = {"type": "shop.pay", "attempts": 0, "correlation_id": None, "tenant": None}
    row: Any = {"id": 1, "command_id": uuid4(), "queue": "default", **columns}
    error = OSError("no answer of postgresql://me:secret@db/shop")
    told = failed_attempt(me, row, None, Dead(explain(error)), error)
    assert told is not None
    assert told.message == "OSError: no answer of postgresql://me:********@db/shop"
