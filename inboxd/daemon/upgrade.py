"""Replaces the supervisor's program: the process, its sockets and its children stay.

Until the exec everything can be undone. Known limit: if a new program fails after that, the
supervisor ends, and the children drain.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Never

from inboxd.daemon.children import spawn
from inboxd.daemon.plan import ASKED_FOR_PLAN, SUPERVISOR, Handover, SupervisorPlan, read, write
from inboxd.errors import InboxdError
from inboxd.telemetry import logs

# Blocked during the exec, so that they wait for the new program's handlers.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD)

# Seconds for the new program to write its plan.
_PLANNING_SECONDS = 60.0


class CannotUpgrade(InboxdError):
    """The new program cannot take over: see its own message above, and send USR2 again."""


async def ask(
    plan: SupervisorPlan, handover: Handover, exit_of: Callable[[int], asyncio.Future[int]]
) -> SupervisorPlan:
    """exit_of: the exit code of a process, when it ends. Raises CannotUpgrade, OSError."""
    path = Path(handover.folder) / "plan"
    asked = {ASKED_FOR_PLAN: str(path), SUPERVISOR: write(plan, handover)}
    pid = spawn(plan.program, {**os.environ, **asked}, {})
    try:
        code = await asyncio.wait_for(exit_of(pid), _PLANNING_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise CannotUpgrade(
            f"the new program has not read its settings within {_PLANNING_SECONDS:g} s"
        ) from None
    if code:
        raise CannotUpgrade(f"the new program ends with {code}: see its own message above")
    return _planned(path)


def _planned(path: Path) -> SupervisorPlan:
    try:
        plan, _ = read(path.read_text())
        path.unlink()
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CannotUpgrade(f"the new program has not written a valid plan: {error}") from error
    return plan


def become(plan: SupervisorPlan, handover: Handover, files: Sequence[socket.socket]) -> Never:
    """Execute the new program in this process, with these files. Raises OSError."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    for each in files:
        each.set_inheritable(True)
    logs.flush()  # the new program cannot write the lines that wait here
    try:
        os.execve(  # noqa: S606 - a shell is not wanted
            plan.supervisor[0],
            list(plan.supervisor),
            {**os.environ, SUPERVISOR: write(plan, handover)},
        )
    except OSError:
        for each in files:
            each.set_inheritable(False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        raise


def taken_over(handover: Handover) -> dict[str, Sequence[socket.socket]]:
    found = {
        name: [socket.socket(fileno=file) for file in files]
        for name, files in handover.listeners.items()
    }
    for its in found.values():
        for each in its:
            each.set_inheritable(False)
    return dict(found)
