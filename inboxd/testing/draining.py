"""A real worker that works until nothing is due any more.

Owns the judgement that an inbox is drained: maintenance has looked for what time has made due, both
processors have since looked at everything from its beginning and found nothing that may run, and
nothing is under way. Promises: what is blocked, paused, kept or due later holds nothing up; what
others keep (rows that are locked, producers that are open, a rate) is waited for until the time is
up; a hook that ignores its cancellation is left, and named. Known limit: a handler that blocks the
event loop, or ignores its cancellation, is the caller's to give up.
*See:* `inbox`, before it; `daemon/incarnation.py`, after it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib.metadata import version
from time import monotonic
from typing import Any

import anyio
from anyio.abc import TaskStatus

from inboxd.api.clock import clock
from inboxd.api.hooks import WorkerInfo
from inboxd.daemon.incarnation import Incarnation
from inboxd.engine.execution import Executions
from inboxd.engine.hooks import Hooks, worker_info
from inboxd.engine.resources import opened
from inboxd.errors import DrainTimeout, InboxdError
from inboxd.model.outcome import telling_error
from inboxd.registry.plugins import default_policy
from inboxd.registry.registry import Registry
from inboxd.settings import Settings
from inboxd.store import testing as store
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements
from inboxd.telemetry.metrics import Metrics
from inboxd.telemetry.monitor import LoopMonitor, Running

# Seconds between two looks whether all rests: nobody says so, and a look costs nothing.
_LOOK = 0.002
# Seconds before what is due, and held by others, is asked for again.
_AGAIN = 0.02
# What finds things that time made due and that are no row's yet.
_MAINTENANCE = ("intakes", "schedules", "batches", "dedup")
_THREADS = 40
_PROCESSES = 2


async def drain(
    settings: Settings,
    registry: Registry,
    connection: Connection,
    *,
    within: float,
    time: Callable[[], datetime],
    resources: Mapping[Any, object],
) -> Sequence[Running] | None:
    """Run a worker until nothing is due: None. Or until `within` seconds are up: what still runs.

    connection: to look at what is due; time: what handlers are told; resources: in place of what
    lifespans would yield, which are opened otherwise. Raises DrainTimeout for a hook that does not
    end.
    """
    clock.set(time)
    monitor = LoopMonitor(stall_timeout=within, on_stall=_nothing, on_lag=_nothing)
    metrics = Metrics(version("inboxd"))
    sql = Statements(settings.database.schema_name)
    running: Sequence[Running] | None = None
    ready: WorkerInfo | None = None
    try:
        async with opened(registry.lifespans, resources) as open_:
            executions = Executions(
                monitor,
                threads=_THREADS,
                processes=_PROCESSES,
                patience=within,
                on_stubborn=_nothing,
                resources=open_,
            )
            hooks = Hooks(registry.hooks, open_, metrics)
            # Without folders of migrations: what they make is in the template.
            incarnation = Incarnation(
                settings, registry, default_policy(settings), metrics, executions, hooks, []
            )
            # In no task group: that would wait for a hook that ignores its cancellation.
            calls = asyncio.create_task(hooks.run())
            try:
                with monitor.watch():
                    async with anyio.create_task_group() as life:
                        await life.start(_live, incarnation)
                        ready = worker_info(incarnation.me)
                        hooks.start(ready)
                        with anyio.move_on_after(within) as scope:
                            await _until_drained(
                                incarnation, partial(_may_run, incarnation, connection, sql)
                            )
                        if scope.cancelled_caught:
                            running = list(monitor.running.values())
                            life.cancel_scope.cancel()
                        incarnation.stop()
            finally:
                await hooks.finish(ready)
            if hooks.left:
                raise DrainTimeout(
                    f"A hook ignores its cancellation: {', '.join(hooks.left)}. Let CancelledError "
                    "pass there; a daemon would end its process."
                )
            await calls
    except BaseExceptionGroup as group:
        raise telling_error(group) from None
    return running


async def _live(
    incarnation: Incarnation, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    if await incarnation.run(task_status.started):
        raise InboxdError("The worker of this test was declared dead.")


async def _until_drained(incarnation: Incarnation, may_run: Callable[[], Awaitable[bool]]) -> None:
    """Wait until all that is due has run, and what that brought about."""
    while True:
        before = incarnation.done
        await incarnation.maintain(_MAINTENANCE)
        passed_by = await _until_at_rest(incarnation)
        if passed_by and await may_run():
            await anyio.sleep(_AGAIN)
        elif incarnation.done == before:
            return


async def _until_at_rest(incarnation: Incarnation) -> bool:
    """Wait until all was looked at and nothing may run; whether something due was passed by."""
    done, since = incarnation.done, monotonic()
    while True:
        rests = [processor.rest for processor in incarnation.processors]
        if incarnation.at_work or incarnation.done != done:
            done, since = incarnation.done, monotonic()
        elif all(rest is not None and rest.looked_at > since for rest in rests):
            if all(rest is None or rest.again is None for rest in rests):
                return any(rest is not None and rest.due for rest in rests)
        else:
            for processor, rest in zip(incarnation.processors, rests, strict=True):
                if rest is not None and rest.looked_at <= since:
                    processor.sweep()
        await anyio.sleep(_LOOK)


async def _may_run(incarnation: Incarnation, connection: Connection, sql: Statements) -> bool:
    """Whether a row is due that this worker would run, if others let it."""
    rows = await store.due(connection, sql)
    return any(incarnation.serves(row["kind"], row["lane"], row["type"]) for row in rows)


def _nothing(_: object) -> None:
    """A test ends no process, and measures nothing."""
