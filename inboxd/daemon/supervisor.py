"""The supervisor: starts, watches and ends the processes of one worker or receiver.

It holds the listening sockets, talks to the service manager for its children, and has no connection
to the database. TERM and INT drain all children, a second signal ends them at once, HUP goes to
each child; USR2 replaces the program, with the same pid and sockets: no connection is refused, and
if the new program cannot start, the old children stay. If the supervisor is killed, its children
drain (`daemon/children.py`). Known limit: its own lines have the log level of its start or last
upgrade.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from inboxd.daemon import sockets, upgrade
from inboxd.daemon.children import adopted
from inboxd.daemon.plan import SUPERVISOR, Handover, SupervisorPlan, read
from inboxd.daemon.supervised import SETTINGS, Supervised
from inboxd.daemon.supervisor_http import serve_all
from inboxd.errors import SettingsError
from inboxd.telemetry import logs
from inboxd.telemetry.systemd import Notifier

_log = logs.get_logger("inboxd.daemon.supervisor")  # __name__ is "__main__" here

# The exit code of shells for a process that a signal ended.
_BY_SIGNAL = 128
# Seconds for last actions after a second signal: more than a child takes for its own.
_COURTESY = 3.0
_LONGEST_LOOK = 1.0


class Supervisor:
    def __init__(
        self,
        plan: SupervisorPlan,
        listeners: Mapping[str, Sequence[socket.socket]],
        handover: Handover | None = None,
    ) -> None:
        self._plan = plan
        self._listeners = dict(listeners)
        self._before = handover
        self._folder = Path(handover.folder if handover else tempfile.mkdtemp(prefix="inboxd-"))
        self._children = Supervised(plan, self._listeners, self._folder, self._changed)
        self._notifier = Notifier()
        self._status = ""
        self._up = False
        self._reloading = False
        self._stopping = False
        self._over = asyncio.Event()
        # Other processes whose end is awaited.
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._replacing = False
        self._face = anyio.CancelScope()
        self._not_serving = anyio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        try:
            async with anyio.create_task_group() as group:
                loop.add_signal_handler(signal.SIGCHLD, self._reap)
                loop.add_signal_handler(signal.SIGHUP, self._reload)
                loop.add_signal_handler(signal.SIGUSR2, group.start_soon, self._upgrade, group)
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, self._stop, number)
                self._begin()
                # Blocked since before the exec: signals since then arrive now.
                signal.pthread_sigmask(signal.SIG_UNBLOCK, upgrade.SIGNALS)
                group.start_soon(self._watch)
                group.start_soon(self._notifier.feed_watchdog, self._is_healthy)
                group.start_soon(self._serve)
                await self._over.wait()
                group.cancel_scope.cancel()
        finally:
            sockets.close(self._listeners)
            shutil.rmtree(self._folder, ignore_errors=True)
        _log.info("stopped")
        return self._children.code

    def _begin(self) -> None:
        before = [] if self._before is None else [adopted(each) for each in self._before.children]
        if self._before is not None:
            self._children.serial = self._before.serial
        _log.info("supervising", processes=self._plan.processes, adopted=len(before))
        for each in self._listeners.get(sockets.HTTP, ()):
            _log.info("health and metrics", url=sockets.url(each))
        self._children.begin(before)
        self._reap()  # also children that ended during the exec
        self._changed()

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(min(_LONGEST_LOOK, self._plan.patience / 4))
            self._children.watch()

    async def _serve(self) -> None:
        self._not_serving = anyio.Event()
        with anyio.CancelScope() as self._face:
            await serve_all(self._listeners.get(sockets.HTTP, ()), self._children)
        self._not_serving.set()

    def _is_healthy(self) -> bool:
        return not self._children.has_unkillable

    def _changed(self) -> None:
        children, all_ = self._children, self._plan.processes
        if children.draining:
            if not self._stopping:
                self._stopping = True
                self._notifier.stopping()
            self._report_status(f"draining: {len(children.all)} of {all_} processes")
            if not children.all:
                self._over.set()
            return
        self._report_status(f"{children.ready} of {all_} processes")
        if children.have_been_ready and not self._up:
            self._up = True
            self._notifier.ready()
            _log.info("ready", processes=all_)
        if self._reloading and not children.reloading:
            self._reloading = False
            self._notifier.ready()

    def _report_status(self, status: str) -> None:
        if status != self._status:
            self._status = status
            self._notifier.status(status)

    def _reap(self) -> None:
        """Collect ended processes; as the first process of a container, orphans, too."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, code = ended[0], os.waitstatus_to_exitcode(ended[1])
                if (exit_ := self._exits.pop(pid, None)) is None:
                    self._children.ended(pid, code)
                elif not exit_.done():
                    exit_.set_result(code)

    def _exit_of(self, pid: int) -> asyncio.Future[int]:
        exit_ = self._exits[pid] = asyncio.get_running_loop().create_future()
        return exit_

    async def _upgrade(self, group: TaskGroup) -> None:
        if self._replacing or self._children.upgrading or self._children.draining:
            reason = "it drains" if self._children.draining else "an upgrade is under way"
            _log.warning("not upgraded", reason=reason)
            return
        self._replacing = True
        try:
            await self._replace()
        except (upgrade.CannotUpgrade, SettingsError, OSError) as error:
            _log.error("not upgraded: the old processes go on", reason=str(error))
            if self._not_serving.is_set():
                group.start_soon(self._serve)
        finally:
            self._replacing = False

    async def _replace(self) -> None:
        """Execute the new program in this process. Raises the reason if that is impossible."""
        _log.info("upgrading")
        plan = await upgrade.ask(self._plan, self._handover(), self._exit_of)
        self._listen(plan)
        # Accepted requests are answered; later ones wait for the new program.
        self._face.cancel()
        await self._not_serving.wait()
        if self._children.draining:
            raise upgrade.CannotUpgrade("it drains")
        if self._reloading:
            self._notifier.ready()
        files = [each for its in self._listeners.values() for each in its]
        files += [child.notify for child in self._children.all]
        upgrade.become(plan, self._handover(), files)

    def _handover(self) -> Handover:
        listeners = {name: [each.fileno() for each in its] for name, its in self._listeners.items()}
        children = [child.handed_over() for child in self._children.all]
        return Handover(str(self._folder), self._children.serial, listeners, children)

    def _listen(self, plan: SupervisorPlan) -> None:
        """Bind and close sockets as the new program needs. Raises SettingsError."""
        for name, address in plan.addresses.items():
            if name not in self._listeners:
                self._listeners[name] = [sockets.bind(address)]
            elif address != self._plan.addresses.get(name):
                _log.warning("another address needs a restart", section=address.section)
        for name in self._listeners.keys() - plan.addresses.keys():
            sockets.close({name: self._listeners.pop(name)})

    def _reload(self) -> None:
        if self._up and not self._children.draining:
            self._reloading = True
            self._notifier.reloading()
        self._children.reload()
        self._changed()

    def _stop(self, number: int) -> None:
        name = signal.Signals(number).name
        if not self._children.draining:
            _log.info("draining", reason=name, processes=len(self._children.all))
            self._children.drain()
            self._changed()
            return
        _log.warning("stopping at once")
        self._children.drain(self._children.code)
        asyncio.get_running_loop().call_later(_COURTESY, self._kill, _BY_SIGNAL + number)

    def _kill(self, code: int) -> None:
        if self._children.kill():
            self._children.code = code


def main() -> int:
    """Follow the plan in the environment; returns the exit code."""
    plan, handover = read(os.environ.pop(SUPERVISOR))
    logs.configure(plan.log_level, plan.log_format, worker=plan.worker)
    try:
        listeners = sockets.inherited() if handover is None else upgrade.taken_over(handover)
    except SettingsError as error:
        logs.put(f"inboxd: {error}")
        return SETTINGS
    with asyncio.Runner() as runner:
        return runner.run(_supervise(plan, listeners, handover))


async def _supervise(
    plan: SupervisorPlan,
    listeners: Mapping[str, Sequence[socket.socket]],
    handover: Handover | None,
) -> int:
    return await Supervisor(plan, listeners, handover).run()


if __name__ == "__main__":
    sys.exit(main())
