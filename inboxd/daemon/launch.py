"""From the command line to the supervisor: the settings become a plan, and this process runs it.

The settings' libraries are dropped by an exec: the supervisor lives long, and keeps its pid.
Sockets are bound before the exec, so that a wrong address is an error of the command line.
"""

import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from inboxd.daemon import sockets
from inboxd.daemon.plan import ASKED_FOR_PLAN, SUPERVISOR, SupervisorPlan, read, write
from inboxd.daemon.sockets import ListenAddress
from inboxd.daemon.upgrade import SIGNALS
from inboxd.settings import Settings

_OPTION = "--processes"


def supervise(
    settings: Settings, addresses: Mapping[str, ListenAddress], processes: int
) -> NoReturn:
    """Become the supervisor of this many processes of this command line. Raises SettingsError."""
    plan = _plan(settings, addresses, processes)
    if asked := os.environ.get(ASKED_FOR_PLAN):
        _check_supervisor(os.environ[SUPERVISOR])
        Path(asked).write_text(write(plan))
        sys.exit(0)
    listeners = sockets.listen(plan.addresses)
    environ = dict(os.environ) | {SUPERVISOR: write(plan)}
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the supervisor sets its handlers
    environ |= sockets.hand_over(listeners)
    os.execve(plan.supervisor[0], list(plan.supervisor), environ)  # noqa: S606 - a shell is not wanted


def _check_supervisor(handed_over: str) -> None:
    import_module("inboxd.daemon.supervisor")
    read(handed_over)


def _plan(
    settings: Settings, addresses: Mapping[str, ListenAddress], processes: int
) -> SupervisorPlan:
    given = sys.argv[1:]
    python = [sys.executable, *_start(given)]
    # -P: like -m, a script must not import from the current folder.
    how = ["-m"] if "-m" in python else ["-P", "-m"]
    stall_timeout = settings.worker.stall_timeout.total_seconds()
    return SupervisorPlan(
        supervisor=[sys.executable, *how, "inboxd.daemon.supervisor"],
        program=[*python, *given],
        command=[*python, *_without_option(given)],
        processes=processes,
        addresses=addresses,
        # Longer than worker.stall_timeout, so that the child can name the handler that blocks.
        patience=1.5 * stall_timeout,
        worker=settings.worker.name,
        log_level=settings.log.level,
        log_format=settings.log.format,
    )


def _start(given: list[str]) -> list[str]:
    """How this program was started: by its script or by -m, with the interpreter's own options."""
    before = len(sys.orig_argv) - len(given)
    if before > 1 and sys.orig_argv[before:] == given:
        return sys.orig_argv[1:before]
    return ["-m", "inboxd"]  # another program called `main`


def _without_option(given: list[str]) -> list[str]:
    left: list[str] = []
    rest = iter(given)
    for each in rest:
        if each == _OPTION:
            next(rest, None)
        elif not each.startswith(f"{_OPTION}="):
            left.append(each)
    return left
