"""The process: loop, signals, exit codes, HTTP face, service manager; it hosts programs.

TERM or INT drains until the deadline, a second signal stops at once, HUP reads the settings again.
Exit codes are from sysexits.h (docs/command-line.md), so that a service manager knows whether a
restart may help. If one program fails, the others end in order before the process ends. Known
limit: a process whose loop is blocked past `worker.stall_timeout` ends itself with 70.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import anyio
import uvloop
from anyio.abc import TaskGroup

from inboxd.admin.http import application
from inboxd.admin.server import HealthPart, serve
from inboxd.daemon import sockets
from inboxd.daemon.health import ProcessHealth
from inboxd.daemon.sockets import ListenAddress, Listeners
from inboxd.errors import PluginError, SettingsError
from inboxd.model.outcome import telling_error
from inboxd.settings import Settings, reloadable, taken_over
from inboxd.telemetry import logs
from inboxd.telemetry.metrics import Metrics
from inboxd.telemetry.monitor import LoopMonitor
from inboxd.telemetry.systemd import Notifier

_log = logs.get_logger(__name__)

_INTERNAL_ERROR = 70
# The exit code of shells for a process that a signal ended.
_BY_SIGNAL = 128
# Seconds for the last actions after a second signal.
_COURTESY = 2.0


class Program(Protocol):
    async def run(self, on_ready: Callable[[], None]) -> None:
        """Run until `drain`; on_ready also if only the database is missing. Raises InboxdError."""

    def drain(self) -> Mapping[str, object]:
        """End within worker.drain_timeout; returns the work under way, for the log."""

    def prepare(self, new: Settings) -> Callable[[Settings], None]:
        """It returns a function that takes them over. Raises SettingsError or PluginError."""

    def ready(self) -> Sequence[HealthPart]:
        """Whether the program works now; answered from memory."""


class Process:
    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        reread: Callable[[], Settings],
        addresses: Mapping[str, ListenAddress],
    ) -> None:
        """reread: reads the settings for HUP. addresses: by socket name."""
        self.settings = settings
        self.metrics = metrics
        logs.count_drops(metrics.log_lines_dropped.inc)
        # Bound before the programs run.
        self.listeners: Listeners = {}
        self.monitor = LoopMonitor(
            stall_timeout=settings.worker.stall_timeout.total_seconds(),
            on_stall=end_at_once,
            on_lag=metrics.loop_lag.observe,
        )
        self._reread = reread
        self._addresses = addresses
        self._notifier = Notifier()
        self._programs: Sequence[Program] = ()
        self._ended: dict[Program, anyio.Event] = {}
        self._starting: set[Program] = set()
        self._stopping = False
        self._error: BaseException | None = None

    def host(self, *programs: Program) -> int:
        """Run until stopped; returns the exit code. At a stop the first program drains first."""
        self._programs = programs
        self._starting = {*programs}
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._main())

    async def end(self, program: Program, reason: str, code: int) -> None:
        """End the process after the other programs, although a task of `program` still runs."""
        self._drain_others(program)
        timeout = self.settings.worker.drain_timeout.total_seconds()
        with anyio.move_on_after(timeout, shield=True):
            for other, ended in self._ended.items():
                if other is not program:
                    await ended.wait()
        end_at_once(reason, code=code)

    async def _main(self) -> int:
        self._ended = {each: anyio.Event() for each in self._programs}
        with self.monitor.watch():
            try:
                async with anyio.create_task_group() as group:
                    await self._start(group)
                    async with anyio.create_task_group() as hosted:
                        for each in self._programs:
                            hosted.start_soon(self._live, each)
                    if self._error is not None:
                        raise self._error from self._error.__cause__
                    group.cancel_scope.cancel()
            except BaseExceptionGroup as group_error:
                error = telling_error(group_error)
                raise error from error.__cause__
        _log.info("stopped")
        return 0

    async def _start(self, group: TaskGroup) -> None:
        group.start_soon(self._hear_signals, group)
        group.start_soon(self._notifier.feed_watchdog, lambda: True)
        self.listeners = sockets.listen(self._addresses)
        if own := self.listeners.get(sockets.HTTP):
            face = application(self.metrics, ProcessHealth(self._programs))
            await group.start(serve, own, face)
            _log.info("health and metrics", url=sockets.url(own[0]))

    async def _live(self, program: Program) -> None:
        try:
            await program.run(partial(self._on_ready, program))
        except Exception as error:  # noqa: BLE001 - raised when all programs have ended
            self._error = self._error or telling_error(error)
            self._drain_others(program)
        finally:
            self._ended[program].set()

    def _drain_others(self, program: Program) -> None:
        for other in self._programs:
            if other is not program:
                other.drain()

    @property
    def _is_up(self) -> bool:
        return not self._starting

    def _on_ready(self, program: Program) -> None:
        self._starting.discard(program)
        if self._is_up:
            self._notifier.ready()
            self._notifier.status("processing")

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
        under_way: dict[str, object] = {}
        for program in self._programs:
            under_way |= program.drain()
        deadline = self.settings.worker.drain_timeout.total_seconds()
        _log.info("draining", reason=reason, deadline=deadline, **under_way)

    def _stop_at_once(self, number: int) -> None:
        """End the process by a thread, since a handler may ignore its cancellation."""
        _log.warning("stopping at once")
        last = threading.Timer(
            _COURTESY,
            end_at_once,
            [f"a second {signal.Signals(number).name}, and a task still runs"],
            {"code": _BY_SIGNAL + number},
        )
        last.daemon = True
        last.start()

    def _reload(self) -> None:
        if self._is_up:
            self._notifier.reloading()
        try:
            new = self._reread()
            reloads = [program.prepare(new) for program in self._programs]
        except (SettingsError, PluginError) as error:
            _log.error("settings are not reloaded", reason=str(error))
        else:
            changes = reloadable(self.settings, new)
            self.settings = taken_over(self.settings, new)
            logs.set_level(self.settings.log.level, rows=self.settings.log.rows)
            for reload in reloads:
                reload(self.settings)
            _log.info("settings are reloaded", live=changes.live, need_restart=changes.restart)
        if self._is_up:  # before that the process is not ready
            self._notifier.ready()


def end_at_once(reason: str, code: int = _INTERNAL_ERROR) -> None:
    """End the process as the last resort: claimed rows are fenced, and reaped."""
    _log.critical("ending the process", reason=reason)
    logs.flush()  # with a time limit: the reason may be that the log is not read
    os._exit(code)
