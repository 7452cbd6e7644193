"""A real worker that runs until no row is due.

Owns the decision that an inbox is drained: maintenance has looked for rows that have become due,
both processors have since looked at all rows and found none that may run, and no row is in flight.
Promises: rows that are blocked, paused, kept or due later delay nothing; rows that other sessions
hold back (by locks, open producers, a rate) are waited for until the time limit; a hook that
ignores its cancellation is abandoned, and named. Known limit: the caller must give up on a handler
that blocks the event loop, or ignores its cancellation. *See:* `inbox`, before it;
`daemon/incarnation.py`, after it.
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
from inboxd.store.session import Session
from inboxd.telemetry.metrics import Metrics
from inboxd.telemetry.monitor import LoopMonitor, Running

# Seconds between two looks whether the worker rests: there is no notification, and a look is cheap.
_LOOK_SECONDS = 0.002
# Seconds before due rows that other sessions hold back are asked for again.
_RETRY_SECONDS = 0.02
# Maintenance tasks that find work that is not in a row yet.
_MAINTENANCE = ("intakes", "schedules", "expiry", "batches", "dedup")
_THREADS = 40
_PROCESSES = 2


async def drain(
    settings: Settings,
    registry: Registry,
    session: Session,
    *,
    within: float,
    time: Callable[[], datetime],
    resources: Mapping[Any, object],
) -> Sequence[Running] | None:
    """Run a worker until no row is due; after `within` seconds, return the handlers still running.

    session: to look for due rows; time: for `ctx.now()`; resources: in place of the lifespans'
    own; other lifespans are opened. Raises DrainTimeout for a hook that does not end.
    """
    clock.set(time)
    monitor = LoopMonitor(stall_timeout=within, on_stall=_nothing, on_lag=_nothing)
    metrics = Metrics(version("inboxd"))
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
            # No folders of migrations: their tables are in the template.
            incarnation = Incarnation(
                settings, registry, default_policy(settings), metrics, executions, hooks, []
            )
            # Not in a task group, which would wait for a hook that ignores its cancellation.
            calls = asyncio.create_task(hooks.run())
            try:
                with monitor.watch():
                    async with anyio.create_task_group() as life:
                        await life.start(_live, incarnation)
                        ready = worker_info(incarnation.me)
                        hooks.start(ready)
                        with anyio.move_on_after(within) as scope:
                            await _until_drained(
                                incarnation, partial(_may_run, incarnation, session)
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
    """Wait until all due rows have run, and the rows that they created."""
    while True:
        before = incarnation.done
        await incarnation.maintain(_MAINTENANCE)
        passed_by = await _until_at_rest(incarnation)
        if passed_by and await may_run():
            await anyio.sleep(_RETRY_SECONDS)
        elif incarnation.done == before:
            return


async def _until_at_rest(incarnation: Incarnation) -> bool:
    """Wait until all rows were looked at; returns whether due rows were passed by."""
    done, since = incarnation.done, monotonic()
    while True:
        sleeps = [processor.sleep for processor in incarnation.processors]
        if incarnation.at_work or incarnation.done != done:
            done, since = incarnation.done, monotonic()
        elif all(sleep is not None and sleep.looked_at > since for sleep in sleeps):
            if all(sleep is None or sleep.again is None for sleep in sleeps):
                return any(sleep is not None and sleep.due for sleep in sleeps)
        else:
            for processor, sleep in zip(incarnation.processors, sleeps, strict=True):
                if sleep is not None and sleep.looked_at <= since:
                    processor.sweep()
        await anyio.sleep(_LOOK_SECONDS)


async def _may_run(incarnation: Incarnation, session: Session) -> bool:
    """Whether a row is due that this worker would run if other sessions did not hold it back."""
    rows = await store.due(session)
    return any(incarnation.serves(row["kind"], row["lane"], row["type"]) for row in rows)


def _nothing(_: object) -> None:
    """Do nothing: a test ends no process, and measures nothing."""
