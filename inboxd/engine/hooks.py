"""Hooks of plugins: called at the worker's start and end, and after attempts that failed.

Calls wait in a queue with one consumer, so a hook never delays a settlement, and its failure
changes no outcome. When the queue is full, calls are dropped, counted and logged. When the worker
ends, the queue is emptied within a time limit, then `on_stop` is called. Known limits: a hanging
hook delays the next ones; a hook that ignores its cancellation runs on (`left`).
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import anyio

from inboxd.api.clock import now
from inboxd.api.hooks import FailedAttempt, Hook, Moment, WorkerInfo
from inboxd.api.records import Handler
from inboxd.engine.execution import take_back
from inboxd.engine.outcomes import is_ours, kind_of, uuid_of
from inboxd.engine.resources import Resources
from inboxd.model.outcome import Dead, Retrying, Unsuccessful, explain
from inboxd.store.rows import ClaimedRow
from inboxd.store.workers import WorkerIdentity
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

# Seconds for one call of a hook.
_CALL = 10.0
# Failed attempts that may wait for hooks: each holds its exception with all frames.
_MOST_WAITING = 1_000
# Seconds at the end: for waiting calls; for a cancelled call; for all of `on_stop`.
_REMAINING = 5.0
_PATIENCE = 1.0
_STOPPING = 5.0


class Hooks:
    """Calls the hooks of all plugins; `run` in a task group, which `finish` alone ends."""

    def __init__(self, hooks: Sequence[Hook], resources: Resources, metrics: Metrics) -> None:
        self._calls = {
            moment: [(hook, resources.bound(hook)) for hook in hooks if hook.moment == moment]
            for moment in ("on_start", "on_stop", "on_error")
        }
        self._counts = metrics.hook_calls
        self._waiting: asyncio.Queue[tuple[Moment, object]] = asyncio.Queue(_MOST_WAITING)
        # Shielded: waiting calls are made although the worker is cancelled.
        self._scope = anyio.CancelScope(shield=True)
        self._ended = anyio.Event()
        self._now: Hook | None = None
        self._broken: set[str] = set()
        self._drops = False
        # Names of hooks that ignore their cancellation.
        self.left: list[str] = []

    @property
    def want_failures(self) -> bool:
        return bool(self._calls["on_error"])

    def start(self, worker: WorkerInfo) -> None:
        self._enqueue("on_start", worker)

    def report(self, failed: FailedAttempt) -> None:
        """Call `on_error` hooks for a failed attempt that has committed. Never waits or raises."""
        self._enqueue("on_error", failed)

    async def run(self) -> None:
        try:
            with self._scope:
                while True:
                    moment, given = await self._waiting.get()
                    await self._call_all(moment, given)
                    self._waiting.task_done()
                    self._drops = self._drops and not self._waiting.empty()
        finally:
            self._ended.set()

    async def finish(self, worker: WorkerInfo | None) -> None:
        """Each call has a bound; a cancellation does not shorten it. worker None: never ready."""
        with anyio.CancelScope(shield=True):
            await self._finish(worker)

    async def _finish(self, worker: WorkerInfo | None) -> None:
        with anyio.move_on_after(_REMAINING):
            await self._waiting.join()
        self._scope.cancel()
        with anyio.move_on_after(_PATIENCE):
            await self._ended.wait()
        if not self._ended.is_set() and self._now is not None:
            self.left.append(self._now.name)
        if left := self._waiting.qsize():
            self._counts.labels("on_error", "dropped").inc(left)
            _log.warning("failed attempts were not reported before the end", dropped=left)
        if worker is not None:
            # In a task of its own, which can be abandoned; a cancel scope would wait for it.
            last = asyncio.ensure_future(self._stop(worker))
            await asyncio.wait([last], timeout=_STOPPING + _PATIENCE)
            if not last.done() and self._now is not None:
                self.left.append(self._now.name)

    async def _stop(self, worker: WorkerInfo) -> None:
        with anyio.move_on_after(_STOPPING):
            await self._call_all("on_stop", worker)

    def _enqueue(self, moment: Moment, given: object) -> None:
        if not self._calls[moment]:
            return
        try:
            self._waiting.put_nowait((moment, given))
        except asyncio.QueueFull:
            self._counts.labels(moment, "dropped").inc()
            if not self._drops:
                self._drops = True
                slow = None if self._now is None else self._now.name
                _log.warning("hooks are too slow: failed attempts are not reported", hook=slow)

    async def _call_all(self, moment: Moment, given: object) -> None:
        for hook, func in self._calls[moment]:
            self._now = hook
            await self._call(hook, func, given)
        self._now = None

    async def _call(self, hook: Hook, func: Any, given: object) -> None:
        limit, task = asyncio.timeout(_CALL), asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        try:
            async with limit:
                await func(given)
        except BaseException as error:
            if is_ours(error):
                raise
            late = f"it took longer than {_CALL:g} s"
            self._failed(hook, late if limit.expired() else explain(error).error)
        else:
            self._broken.discard(hook.name)
            self._counts.labels(hook.moment, "succeeded").inc()
        finally:
            if task is not None and task.cancelling() > before:
                await take_back(task, before)  # cancellations by the hook, not by the worker

    def _failed(self, hook: Hook, reason: str) -> None:
        self._counts.labels(hook.moment, "failed").inc()
        if hook.name not in self._broken:
            self._broken.add(hook.name)
            _log.error("a hook failed", hook=hook.name, at=hook.place, reason=reason)


def worker_info(me: WorkerIdentity) -> WorkerInfo:
    return WorkerInfo(id=me.id, name=me.name, version=me.version)


def failed_attempt(
    me: WorkerIdentity,
    row: ClaimedRow,
    handler: Handler | None,
    outcome: Unsuccessful,
    error: BaseException,
    *,
    events: int | None = None,
) -> FailedAttempt | None:
    """None: the attempt was deferred, not failed. events: their number in a chunk."""
    if not isinstance(outcome, Retrying | Dead):
        return None
    retry_at = None
    if isinstance(outcome, Retrying):
        retry_at = now() + timedelta(seconds=outcome.delay)
    columns: Any = row
    uuid = uuid_of(row)
    return FailedAttempt(
        error=error,
        message=outcome.failure.error,
        fingerprint=outcome.failure.fingerprint,
        outcome="retrying" if isinstance(outcome, Retrying) else "dead",
        retry_at=retry_at,
        kind=kind_of(row) if events is None else "chunk",
        id=row["id"],
        uuid=uuid,
        type=row["type"],
        topic=columns.get("topic"),
        queue=columns.get("queue"),
        plugin=None if handler is None else handler.plugin,
        handler=None if handler is None else handler.name,
        attempt=row["attempts"] + 1,
        correlation_id=row["correlation_id"] or str(uuid),
        tenant=row["tenant"],
        worker=worker_info(me),
        events=1 if events is None else events,
    )
