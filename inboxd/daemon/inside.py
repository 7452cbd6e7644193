"""A worker inside another program: in its event loop, for development and tests of a service.

It handles no signals, never ends the process, listens on no port and does not change logging. If it
was declared dead it comes back; any failure but an outage ends the block with its error. Known
limits: a handler that blocks the event loop blocks the program; one that ignores its cancellation
blocks the end of the block. Both are logged.
"""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

import anyio
from anyio.abc import TaskStatus

from inboxd.api.handlers import Handlers
from inboxd.daemon.incarnation import Incarnation
from inboxd.engine.execution import Executions
from inboxd.engine.hooks import Hooks, worker_info
from inboxd.engine.resources import opened
from inboxd.model.outcome import explain, telling_error
from inboxd.registry.plugins import build_registry, configured, default_policy, load_plugins
from inboxd.registry.registry import Registry
from inboxd.settings import Settings
from inboxd.store.connections import is_passing
from inboxd.store.plugin_folders import MigrationFolder, shipped_by
from inboxd.telemetry import logs
from inboxd.telemetry.metrics import Metrics
from inboxd.telemetry.monitor import LoopMonitor

_log = logs.get_logger(__name__)

_THREADS = 40
# The pause before joining again, in seconds.
_PAUSE = 1.0


@asynccontextmanager
async def worker(settings: Settings, *, handlers: Sequence[Handlers] = ()) -> AsyncIterator[None]:
    """Run a worker in this event loop, from the first line of the block to its end.

    Without `handlers` it loads the installed plugins. Raises PluginError or SettingsError for
    invalid ones, DatabaseError or SchemaError when it cannot start.
    """
    if handlers:
        plugins = build_registry([(f"handlers[{n}]", each) for n, each in enumerate(handlers)])
        folders: Sequence[MigrationFolder] = ()
    else:
        plugins = load_plugins(settings.worker.plugins)
        folders = shipped_by(settings.worker.plugins)
    logs.join()
    guest = _Guest(settings, configured(plugins, settings), folders)
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(guest.run)
            try:
                yield
            finally:
                guest.stop()
    except BaseExceptionGroup as group:
        error = telling_error(group)
        raise error from error.__cause__


class _Guest:
    def __init__(
        self, settings: Settings, registry: Registry, folders: Sequence[MigrationFolder]
    ) -> None:
        self._settings = settings
        self._folders = folders
        self._registry = registry
        self._metrics = Metrics(version("inboxd"))
        self._incarnation: Incarnation | None = None
        self._stopping = False
        self._has_lived = False

    def stop(self) -> None:
        self._stopping = True
        if self._incarnation is not None:
            self._incarnation.stop()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        patience = self._settings.worker.stall_timeout.total_seconds()
        monitor = LoopMonitor(
            stall_timeout=patience, on_stall=_report, on_lag=self._metrics.loop_lag.observe
        )
        with monitor.watch():
            async with (
                opened(self._registry.lifespans, {}) as resources,
                anyio.create_task_group() as tasks,
            ):
                executions = Executions(
                    monitor,
                    threads=_THREADS,
                    processes=os.cpu_count() or 1,
                    patience=patience,
                    on_stubborn=_report,
                    resources=resources,
                )
                hooks = Hooks(self._registry.hooks, resources, self._metrics)
                tasks.start_soon(hooks.run)
                try:
                    await self._live(executions, hooks, task_status.started)
                finally:
                    now = self._incarnation
                    await hooks.finish(worker_info(now.me) if now and self._has_lived else None)
                    if hooks.left:
                        _report(f"ignores its cancellation: {', '.join(hooks.left)}")

    async def _live(
        self, executions: Executions, hooks: Hooks, on_ready: Callable[[], None]
    ) -> None:
        while not self._stopping:
            policy = default_policy(self._settings)
            incarnation = Incarnation(
                self._settings,
                self._registry,
                policy,
                self._metrics,
                executions,
                hooks,
                self._folders,
            )
            self._incarnation = incarnation
            try:
                died = await incarnation.run(partial(self._ready, incarnation, hooks, on_ready))
            except Exception as error:
                if not (self._has_lived and is_passing(telling_error(error))):
                    raise
                reason = explain(telling_error(error)).error
                _log.warning("the worker waits until the database answers", reason=reason)
                await anyio.sleep(_PAUSE)
            else:
                if not died:
                    return

    def _ready(self, incarnation: Incarnation, hooks: Hooks, on_ready: Callable[[], None]) -> None:
        if not self._has_lived:
            self._has_lived = True
            hooks.start(worker_info(incarnation.me))
            on_ready()
        _log.info("ready", worker_id=str(incarnation.me.id), version=incarnation.me.version)


def _report(reason: str) -> None:
    """Log a blocking handler; called repeatedly, where a daemon would end its process."""
    _log.critical("a handler blocks the program", reason=reason)
