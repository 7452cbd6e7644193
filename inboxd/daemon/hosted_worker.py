"""The worker that a process hosts: plugins' resources and hooks, and one incarnation after another.

A worker that was declared dead comes back, however long the database is unreachable. Known limit: a
resource or hook that ignores its cancellation runs on until the process ends.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from inboxd.admin.server import HealthPart
from inboxd.api.hooks import WorkerInfo
from inboxd.daemon.garbage import OF_HANDLERS, look_for_garbage_seldom
from inboxd.daemon.health import health_of
from inboxd.daemon.incarnation import Incarnation
from inboxd.daemon.process import Process, end_at_once
from inboxd.engine.execution import Executions
from inboxd.engine.hooks import Hooks, worker_info
from inboxd.engine.resources import Resources
from inboxd.model.outcome import explain, telling_error
from inboxd.registry.plugins import configured, default_policy
from inboxd.registry.registry import Registry
from inboxd.settings import Settings
from inboxd.store.connections import is_away, is_passing
from inboxd.store.plugin_folders import shipped_by
from inboxd.telemetry import logs

_log = logs.get_logger(__name__)

_TEMPORARY = 75
_THREADS = 40
# The pause before joining again, in seconds.
_PAUSE = 1.0


class HostedWorker:
    def __init__(self, process: Process, plugins: Registry, *, patient: bool = False) -> None:
        """patient: also the first incarnation waits for an unreachable database."""
        settings = process.settings
        self._process = process
        self._settings = settings
        self._plugins = plugins
        self._patient = patient
        self._registry = configured(plugins, settings)
        self._folders = shipped_by(settings.worker.plugins)
        self._policy = default_policy(settings)
        self._incarnation: Incarnation | None = None
        self._resources = Resources(self._registry.lifespans)
        self._opening: anyio.CancelScope | None = None
        self._stopping = False
        self._has_lived = False

    def ready(self) -> Sequence[HealthPart]:
        return health_of(self._incarnation)

    def drain(self) -> Mapping[str, object]:
        self._stopping = True
        if self._opening is not None:
            self._opening.cancel()
        if self._incarnation is not None:
            self._incarnation.stop()
        running: Counter[str] = self._process.monitor.types()
        return {"running": running.total(), "types": dict(running.most_common())}

    def prepare(self, new: Settings) -> Callable[[Settings], None]:
        registry = configured(self._plugins, new)

        def reload(settings: Settings) -> None:
            # Also for the next incarnation.
            self._settings = settings
            self._registry = replace(self._registry, breakers=registry.breakers)
            if self._incarnation is not None:
                self._incarnation.reload(settings, registry.breakers)
                self._incarnation.doubt(new, registry)

        return reload

    async def run(self, on_ready: Callable[[], None]) -> None:
        async with anyio.create_task_group() as group:
            await self._work(group, on_ready)
            group.cancel_scope.cancel()

    async def _work(self, group: TaskGroup, on_ready: Callable[[], None]) -> None:
        resources = self._resources
        if self._stopping:
            return
        try:
            with anyio.CancelScope() as self._opening:
                await resources.open(group)
            if not self._stopping:
                hooks = Hooks(self._registry.hooks, resources, self._process.metrics)
                group.start_soon(hooks.run)
                try:
                    await self._live(self._executions(), hooks, on_ready)
                finally:
                    await hooks.finish(self._worker())
                    resources.left += hooks.left
        finally:
            await resources.close()
            if resources.left:
                await self._leave_behind(", ".join(resources.left))

    def _executions(self) -> Executions:
        return Executions(
            self._process.monitor,
            threads=_THREADS,
            processes=os.cpu_count() or 1,
            patience=self._settings.worker.stall_timeout.total_seconds(),
            on_stubborn=end_at_once,
            resources=self._resources,
        )

    async def _live(
        self, executions: Executions, hooks: Hooks, on_ready: Callable[[], None]
    ) -> None:
        while not self._stopping:
            incarnation = Incarnation(
                self._settings,
                self._registry,
                self._policy,
                self._process.metrics,
                executions,
                hooks,
                self._folders,
            )
            self._incarnation = incarnation
            try:
                died = await incarnation.run(partial(self._ready, incarnation, hooks, on_ready))
            except Exception as error:
                if not self._may_wait(telling_error(error)):
                    raise
                _log.warning(
                    "the worker waits until the database answers",
                    reason=explain(telling_error(error)).error,
                )
                on_ready()
                await anyio.sleep(_PAUSE)
            else:
                if not died:
                    return

    def _may_wait(self, error: BaseException) -> bool:
        """Whether to wait for the database; at the first start only if `patient`."""
        return is_passing(error) if self._has_lived else self._patient and is_away(error)

    def _worker(self) -> WorkerInfo | None:
        """The worker's description for hooks; None if it was never ready."""
        if self._incarnation is None or not self._has_lived:
            return None
        return worker_info(self._incarnation.me)

    def _ready(self, incarnation: Incarnation, hooks: Hooks, on_ready: Callable[[], None]) -> None:
        if not self._has_lived:
            look_for_garbage_seldom(OF_HANDLERS)
            hooks.start(worker_info(incarnation.me))
        self._has_lived = True
        on_ready()
        _log.info(
            "ready",
            worker_id=str(incarnation.me.id),
            version=incarnation.me.version,
            events=len(incarnation.me.events),
            commands=len(incarnation.me.commands),
        )

    async def _leave_behind(self, names: str) -> None:
        """End the process: a task that ignores its cancellation would keep it forever."""
        error = sys.exception()
        reason = f"ignores its cancellation: {names}" + (f"; before that: {error}" if error else "")
        await self._process.end(self, reason, code=0 if self._stopping else _TEMPORARY)
