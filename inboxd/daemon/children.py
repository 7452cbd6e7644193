"""The supervisor's children: starts each, and receives its reports.

Children report by the protocol of `sd_notify`. A child inherits only its sockets; a signal that
reaches it before its exec does not affect the supervisor; its process group lets a Ctrl-C reach it
once. When the supervisor dies, the kernel sends SIGTERM to the child (on Linux: PR_SET_PDEATHSIG).
"""

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from inboxd.daemon import sockets
from inboxd.daemon.plan import AdoptedChild
from inboxd.daemon.process_number import PROCESS

_PR_SET_PDEATHSIG = 1
# The exit code of shells for a program that cannot be started.
_NOT_STARTED = 127
# Signals that a Python program may have handlers for; exec resets them to defaults in any case.
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD)
_ONLY_FOR_THE_SUPERVISOR = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


@dataclass(slots=True, eq=False)
class Child:
    """One process. leaving: it was told to drain, and has no successor."""

    number: int
    pid: int
    serial: int
    notify: socket.socket
    http: Path | None
    started: float
    # Time of its last sign of life, by the monotonic clock.
    beat: float
    # Whether its signal handlers are set: before that, a signal would end it.
    heard: bool = False
    ready: bool = False
    leaving: bool = False
    reloading: bool = False
    # How often it was killed for its silence.
    kills: int = 0
    # Whether an earlier supervisor started it, perhaps with another release.
    adopted: bool = False
    _awaits_hang_up: bool = False

    def hear(self) -> None:
        with suppress(BlockingIOError):
            while told := self.notify.recv(4096):
                self.beat = time.monotonic()
                self._begin()
                for line in told.decode(errors="replace").splitlines():
                    match line:
                        case "READY=1":
                            self.ready, self.reloading = True, False
                        case "RELOADING=1":
                            self.reloading = True
                        case "STOPPING=1":
                            self.ready = False

    def drain(self) -> None:
        """Drain it; a second call ends it at once."""
        self.leaving = True
        self._send(signal.SIGTERM)

    def hang_up(self) -> None:
        """Let it read its settings again, as soon as it can."""
        if self.heard:
            self.reloading = self.ready
            self._send(signal.SIGHUP)
        else:
            self._awaits_hang_up = True

    def kill(self) -> None:
        """Kill it and the other processes of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._send(signal.SIGKILL)  # it may not have a group yet

    def close(self) -> None:
        for path in (self.notify.getsockname(), self.http):
            if path:
                Path(path).unlink(missing_ok=True)
        self.notify.close()

    def handed_over(self) -> AdoptedChild:
        http = None if self.http is None else str(self.http)
        file = self.notify.fileno()
        return AdoptedChild(
            self.number, self.pid, self.serial, file, http, self.ready, self.leaving
        )

    def _begin(self) -> None:
        self.heard = True
        if self._awaits_hang_up:
            self._awaits_hang_up = False
            self.hang_up()

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def adopted(given: AdoptedChild) -> Child:
    notify = socket.socket(fileno=given.notify)
    notify.set_inheritable(False)
    now = time.monotonic()
    http = None if given.http is None else Path(given.http)
    # A child without signal handlers gets its signals after its first message.
    return Child(
        given.number,
        given.pid,
        given.serial,
        notify,
        http,
        now,
        now,
        heard=given.ready,
        ready=given.ready,
        leaving=given.leaving,
        adopted=True,
    )


def start(
    command: Sequence[str],
    number: int,
    serial: int,
    shared: sockets.Listeners,
    folder: Path,
    patience: float,
) -> Child:
    """Start a process with these sockets; only the supervisor can reach its own HTTP port."""
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    notify.bind(str(folder / f"{number}-{serial}.notify"))
    listeners = {name: its for name, its in shared.items() if name != sockets.HTTP}
    http = None
    try:
        if sockets.HTTP in shared:
            http = folder / f"{number}-{serial}.http"
            own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listeners[sockets.HTTP] = [own]
            own.bind(str(http))
            own.listen(sockets.BACKLOG)
        environ = {k: v for k, v in os.environ.items() if k not in _ONLY_FOR_THE_SUPERVISOR}
        environ[PROCESS] = str(number)
        environ["NOTIFY_SOCKET"] = notify.getsockname()
        environ["WATCHDOG_USEC"] = str(round(patience * 1_000_000))
        pid = spawn(command, environ, listeners)
    finally:
        sockets.close({sockets.HTTP: listeners.get(sockets.HTTP, ())})
    now = time.monotonic()
    return Child(number, pid, serial, notify, http, now, now)


def spawn(command: Sequence[str], environ: Mapping[str, str], listeners: sockets.Listeners) -> int:
    """Start a program in a process of its own, with these sockets; returns its pid."""
    parent = os.getpid()
    # Between fork and exec, a signal handler would write to the supervisor's own wake-up file.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        if (pid := os.fork()) == 0:
            _become(command, dict(environ), listeners, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _become(
    command: Sequence[str],
    environ: dict[str, str],
    listeners: sockets.Listeners,
    parent: int,
) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        for number in _HANDLED:
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        _drain_with(parent)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        environ |= sockets.hand_over(listeners)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # undo the supervisor's blocking of signals
        os.execve(command[0], list(command), environ)  # noqa: S606 - a shell is not wanted
    except BaseException as error:  # noqa: BLE001 - the supervisor's code must not run on in the child
        os.write(2, f"inboxd: cannot start {command[0]}: {error}\n".encode())
    os._exit(_NOT_STARTED)


def _die_unless(parent: int) -> None:
    if os.getppid() != parent:  # the parent ended before prctl
        os._exit(_NOT_STARTED)


def _drain_with(parent: int) -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        _die_unless(parent)


# Loaded here, since very little code should run after a fork.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
