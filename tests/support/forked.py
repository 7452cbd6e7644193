"""Workers without their imports: a process that has made them once forks each worker.

An interpreter needs two thirds of a second of CPU to import the daemon, and the tests start
hundreds of workers. A forked one is a process like any other, with a session, signals and an exit
code of its own; it reads its settings and finds its plugins itself.
Promises: the process that forks ends with the one that asks.
Known limit: what an interpreter reads at its own start is that of the first one (`fits`).
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
from typing import BinaryIO


class Forked:
    """A process that was forked, with those methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, ended: BinaryIO) -> None:
        """Remember the process; `ended` gets its exit code when it ends."""
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code (negative: the signal that ended it), or None while it lives."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit code. Raises subprocess.TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("inboxd run", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it lives."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM, if it lives."""
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
    if file.closed:  # another thread has read it
        return True
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


def fits() -> bool:
    """Whether a process that starts now would find what the one that forks has found."""
    return _forker()[1] == _read_at_start()


def fork(
    arguments: Sequence[str], environment: Mapping[str, str], output: int, inherited: int
) -> Forked:
    """Start `inboxd` with these arguments; it writes to `output` and keeps `inherited` open."""
    control, _ = _forker()
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
def _forker() -> tuple[socket.socket, object]:
    """The way to the process that forks, which is started, and what it has found at its start."""
    here, there = socket.socketpair()
    with there:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forker", str(there.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[there.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        here.close()
        process.wait(10)

    atexit.register(end)
    return here, _read_at_start()


def _read_at_start() -> object:
    """What decides how an interpreter starts, and where it finds modules."""
    names = sorted(name for name in os.environ if name.startswith(("PYTHON", "LD_")))
    return os.getcwd(), [(name, os.environ[name]) for name in names]  # noqa: PTH109 - as it is
