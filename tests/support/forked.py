"""Workers that start without imports: one process imports the daemon and forks each worker.

    worker = fork(["run"], environment, output=log.fileno(), inherited=pipe)

An interpreter needs two thirds of a second of CPU to import the daemon, and the tests start
hundreds of workers. A forked worker is a process like any other, with its own session, signals and
exit code; it reads its settings and finds its plugins itself.

Promises: the forking process ends with the process that started it.

Known limits: a worker whose interpreter must start differently from the tests' is not forked
(`fits`). Forked workers share one hash seed, time zone and locale, and all modules that the tests'
helpers import. Where that may hide a fault, as in chaos, workers have their own interpreters
(`forked=False`).

See: tests/support/forker.py, the process that forks.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from tests.support.waiting import patient

_ROOT = Path(__file__).parents[2]
# The environment at the start of the tests, whatever a test changes later. PYTEST_CURRENT_TEST
# marks the process: by it the gate finds processes of killed runs (.ci/gate/leftovers.py).
_ENVIRONMENT = {**os.environ, "PYTEST_CURRENT_TEST": "any"}


class Forked:
    """A forked process, with those methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, ended: BinaryIO) -> None:
        """Remember the process; its exit code arrives on `ended`."""
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        """The exit code (negative: the signal that ended the process), or None while it lives."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit code. Raises subprocess.TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("inboxd run", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if the process lives."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM, if the process lives."""
        self.send_signal(signal.SIGTERM)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._ended, timeout):
            with self._reading:
                if self.returncode is None:
                    with self._ended:
                        code = self._ended.read()
                    assert code, "The process that forks workers has ended."
                    self.returncode = int(code)
        return self.returncode


def _is_readable(file: BinaryIO, timeout: float | None) -> bool:
    poll = select.poll()
    try:
        poll.register(file, select.POLLIN)
    except ValueError:  # another thread has read and closed it
        return True
    return bool(poll.poll(None if timeout is None else timeout * 1000))


def fits() -> bool:
    """Whether a process that starts now would import the same code as the forking process.

    PYTHONPATH may name further plugins, which are imported after the fork, but not another inboxd.
    """
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [folder for folder in folders if folder and (Path(folder) / "inboxd").is_dir()]
    same = _read_at_start(os.environ) == _read_at_start(_ENVIRONMENT)
    return same and not others and Path.cwd() == _ROOT


def fork(
    arguments: Sequence[str], environment: Mapping[str, str], output: int, inherited: int
) -> Forked:
    """Start `inboxd` with these arguments; it writes to `output` and keeps `inherited` open."""
    control = _forker()
    reading, writing = os.pipe()
    try:
        socket.send_fds(control, [b"f"], [output, inherited, writing])
        control.sendall(json.dumps([list(arguments), dict(environment)]).encode() + b"\n")
        answer = control.recv(32)
    finally:
        os.close(writing)
    assert answer, "The process that forks workers has ended."
    return Forked(int(answer), os.fdopen(reading, "rb"))


@cache
def _forker() -> socket.socket:
    """The socket to the forking process, which is started at the first call."""
    here, there = socket.socketpair()
    with there:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forker", str(there.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=_ROOT,
            env=_ENVIRONMENT,
            pass_fds=[there.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        here.close()
        process.wait(patient())

    atexit.register(end)
    return here


def _read_at_start(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that an interpreter reads at its start; PYTHONPATH is left to the worker."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LD_", "MALLOC_")) and name != "PYTHONPATH"
    }
