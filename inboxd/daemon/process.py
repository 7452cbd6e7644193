"""The process: loop, signals, exit codes, HTTP face, service manager.

Owns what happens between `inboxd run` and its exit code. Promises: TERM or INT drains until the
deadline, a second one stops at once, whatever handlers do, HUP reads the settings again; the exit
codes are those of sysexits.h (docs/cli.md), so that a service manager can tell what a restart may
mend; a worker that was declared dead comes back, however long the database is away just then. Known
limit: a process whose loop is blocked past `worker.stall_timeout` ends itself with 70, and its
commands wait for the reaper.
"""

import asyncio
import os
import signal
import sys
import threading
from collections import Counter
from functools import partial
from importlib.metadata import version
from pathlib import Path

import anyio
import uvloop
from anyio.abc import TaskGroup

from inboxd.admin.http import serve
from inboxd.api.hooks import WorkerInfo
from inboxd.daemon.health import DaemonHealth
from inboxd.daemon.incarnation import Incarnation
from inboxd.engine.execution import Executions
from inboxd.engine.hooks import Hooks, worker_info
from inboxd.engine.resources import Resources
from inboxd.errors import PluginError, SettingsError
from inboxd.model.outcome import explain, telling_error
from inboxd.registry.plugins import accepted, configured, default_policy, load_plugins
from inboxd.registry.registry import Registry
from inboxd.settings import Settings, read, reloadable, taken_over
from inboxd.store.connections import is_passing
from inboxd.store.plugin_folders import shipped_by
from inboxd.telemetry import logs
from inboxd.telemetry.metrics import Metrics
from inboxd.telemetry.monitor import LoopMonitor
from inboxd.telemetry.systemd import Notifier

_log = logs.get_logger(__name__)

_INTERNAL_ERROR = 70
_TEMPORARY = 75
# As a shell has it for a process that a signal ended.
_BY_SIGNAL = 128
_THREADS = 40
# What a second signal leaves for goodbyes, and the pause before joining again, in seconds.
_COURTESY = 2.0
_PAUSE = 1.0


def run(settings: Settings, *, config: Path | None = None) -> int:
    """Run the daemon until it is told to stop; returns the exit code.

    `config` is what HUP reads again. Raises InboxdError when it cannot start.
    """
    log = settings.log
    logs.configure(log.level, log.format, rows=log.rows, worker=settings.worker.name)
    plugins = load_plugins(settings.worker.plugins)
    daemon = _Daemon(settings, plugins, config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(daemon.main())


class _Daemon:
    """One process; its incarnations follow one another."""

    def __init__(self, settings: Settings, plugins: Registry, config: Path | None) -> None:
        self._settings = settings
        self._plugins = plugins
        self._registry = configured(plugins, settings)
        self._folders = shipped_by(settings.worker.plugins)
        self._policy = default_policy(settings)
        self._config = config
        self._metrics = Metrics(version("inboxd"))
        self._notifier = Notifier()
        self._incarnation: Incarnation | None = None
        self._health = DaemonHealth(lambda: self._incarnation)
        self._resources = Resources(self._registry.lifespans)
        self._opening: anyio.CancelScope | None = None
        self._stopping = False
        self._has_lived = False
        self._monitor: LoopMonitor | None = None

    async def main(self) -> int:
        """Live until stopped."""
        monitor = self._monitor = LoopMonitor(
            stall_timeout=self._settings.worker.stall_timeout.total_seconds(),
            on_stall=_end_at_once,
            on_lag=self._metrics.loop_lag.observe,
        )
        executions = Executions(
            monitor,
            threads=_THREADS,
            processes=os.cpu_count() or 1,
            patience=self._settings.worker.stall_timeout.total_seconds(),
            on_stubborn=_end_at_once,
            resources=self._resources,
        )
        with monitor.watch():
            try:
                async with anyio.create_task_group() as group:
                    await self._start(group)
                    await self._work(executions, group)
                    group.cancel_scope.cancel()
            except BaseExceptionGroup as group_error:
                error = telling_error(group_error)
                raise error from error.__cause__
        _log.info("stopped")
        return 0

    async def _start(self, group: TaskGroup) -> None:
        group.start_soon(self._hear_signals, group)
        group.start_soon(self._notifier.feed_watchdog, lambda: True)
        if self._settings.http.enabled:
            port = await group.start(serve, self._settings.http, self._metrics, self._health)
            _log.info("health and metrics", url=f"http://{self._settings.http.host}:{port}")

    async def _work(self, executions: Executions, group: TaskGroup) -> None:
        """Open what plugins need, live, and close it: it outlives incarnations."""
        resources = self._resources
        if self._stopping:
            return
        try:
            with anyio.CancelScope() as self._opening:
                await resources.open(group)
            if not self._stopping:
                hooks = Hooks(self._registry.hooks, resources, self._metrics)
                group.start_soon(hooks.run)
                try:
                    await self._live(executions, hooks)
                finally:
                    await hooks.finish(self._worker())
                    resources.left += hooks.left
        finally:
            await resources.close()
            if resources.left:
                self._leave_behind(", ".join(resources.left))

    async def _live(self, executions: Executions, hooks: Hooks) -> None:
        while not self._stopping:
            incarnation = Incarnation(
                self._settings,
                self._registry,
                self._policy,
                self._metrics,
                executions,
                hooks,
                self._folders,
            )
            self._incarnation = incarnation
            try:
                died = await incarnation.run(partial(self._ready, incarnation, hooks))
            except Exception as error:
                # At the first start somebody looks on; later the database comes back by itself.
                if not (self._has_lived and is_passing(telling_error(error))):
                    raise
                _log.warning(
                    "the next life waits for the database",
                    reason=explain(telling_error(error)).error,
                )
                await anyio.sleep(_PAUSE)
            else:
                if not died:
                    return

    def _worker(self) -> WorkerInfo | None:
        """What hooks are told of it; None: it was never ready."""
        if self._incarnation is None or not self._has_lived:
            return None
        return worker_info(self._incarnation.me)

    def _ready(self, incarnation: Incarnation, hooks: Hooks) -> None:
        if not self._has_lived:
            hooks.start(worker_info(incarnation.me))
        self._has_lived = True
        self._notifier.ready()
        self._notifier.status("processing")
        _log.info(
            "ready",
            worker_id=str(incarnation.me.id),
            version=incarnation.me.version,
            events=len(incarnation.me.events),
            commands=len(incarnation.me.commands),
        )

    async def _hear_signals(self, group: TaskGroup) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    self._reload()
                elif self._stopping:
                    self._stop_at_once(number)
                    group.cancel_scope.cancel()
                else:
                    self._drain(signal.Signals(number).name)

    def _drain(self, reason: str) -> None:
        self._stopping = True
        self._notifier.stopping()
        timeout = self._settings.worker.drain_timeout.total_seconds()
        running: Counter[str] = Counter() if self._monitor is None else self._monitor.types()
        _log.info(
            "draining",
            reason=reason,
            deadline=timeout,
            running=running.total(),
            types=dict(running.most_common()),
        )
        if self._opening is not None:
            self._opening.cancel()
        if self._incarnation is not None:
            self._incarnation.stop()

    def _stop_at_once(self, number: int) -> None:
        """A handler may swallow its cancellation: a thread ends the process all the same."""
        _log.warning("stopping at once")
        last = threading.Timer(
            _COURTESY,
            _end_at_once,
            [f"a second {signal.Signals(number).name}, and something goes on"],
            {"code": _BY_SIGNAL + number},
        )
        last.daemon = True
        last.start()

    def _leave_behind(self, names: str) -> None:
        """What ignores its cancellation would keep the process for ever."""
        error = sys.exception()
        reason = f"ignores its cancellation: {names}" + (f"; before that: {error}" if error else "")
        _end_at_once(reason, code=0 if self._stopping else _TEMPORARY)

    def _reload(self) -> None:
        if self._has_lived:
            self._notifier.reloading()
        try:
            new = accepted(read(self._config), self._plugins)
            registry = configured(self._plugins, new)
        except (SettingsError, PluginError) as error:
            _log.error("settings are not reloaded", reason=str(error))
        else:
            changes = reloadable(self._settings, new)
            self._settings = taken_over(self._settings, new)  # for the next incarnation too
            logs.set_level(self._settings.log.level, rows=self._settings.log.rows)
            if self._incarnation is not None:
                self._incarnation.reload(self._settings)
                self._incarnation.doubt(new, registry)
            _log.info("settings are reloaded", live=changes.live, need_restart=changes.restart)
        if self._has_lived:  # else it is not ready yet
            self._notifier.ready()


def _end_at_once(reason: str, code: int = _INTERNAL_ERROR) -> None:
    """Called where nothing else can be done: what is held is fenced, and reaped."""
    _log.critical("ending the process", reason=reason)
    sys.stderr.flush()
    os._exit(code)
