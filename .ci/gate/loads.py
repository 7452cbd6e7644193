"""Loads for repeated tests: a third of the processor, pauses, busy loops beside them.

A pause stops all processes of the tests at once, as in a paused virtual machine: also those with a
session of their own, and those whose parent has ended, which this process adopts meanwhile.
Promises that it leaves no process stopped, and that processes which a test has stopped stay so.
Known limit: a process that a test stops at the very begin of a pause goes on after it.

*See:* `steady.py`, which repeats the tests.
"""

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from gate import processes

Name = Literal["slow", "stall", "hog"]

# The folder of the machine's control groups (cgroup v2).
_GROUPS = Path("/sys/fs/cgroup")
_PERIOD = 100_000  # microseconds, of which the tests get a third, on each core
# Without such a group: seconds for which the tests run and rest, in turn.
_RUNS, _RESTS = 0.05, 0.15  # stopping them takes a while
# Seconds between two pauses, and seconds of each.
_BETWEEN, _STALLS = (2.0, 6.0), (1.0, 4.0)
# Seconds between two checks for ended processes.
_LOOK = 0.2
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER
# Ends with the process that started it.
_BUSY = "import os\nbegan = os.getppid()\nwhile os.getppid() == began: sum(range(100_000))"


class Load:
    """No load: the tests run at full speed. longest: seconds of its longest pause."""

    longest = 0.0

    def command(self, command: Sequence[str]) -> list[str]:
        """The command that starts the tests under this load."""
        return list(command)

    @contextmanager
    def beside(self, pid: int) -> Iterator[None]:
        """Load the process and its descendants until the end of the `with` block."""
        del pid
        yield


class BusyLoops(Load):
    """A busy loop for each core."""

    @contextmanager
    def beside(self, pid: int) -> Iterator[None]:
        del pid
        loops = [
            subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(os.cpu_count() or 1)
        ]
        try:
            yield
        finally:
            for each in loops:
                each.kill()
                each.wait()


class Quota(Load):
    """A control group that gets a part of the processor."""

    def __init__(self, group: Path) -> None:
        """Use the group of this folder."""
        self._group = group

    def command(self, command: Sequence[str]) -> list[str]:
        """Let the process join the group before it begins."""
        join = 'echo $$ >"$0" && exec "$@"'
        return ["/bin/sh", "-c", join, str(self._group / "cgroup.procs"), *command]


class Pauses(Load):
    """The tests run and rest in turn; the functions return the seconds of each."""

    def __init__(self, runs: Callable[[], float], rests: Callable[[], float]) -> None:
        self._runs, self._rests = runs, rests

    @contextmanager
    def beside(self, pid: int) -> Iterator[None]:
        _adopt(orphans=True)
        own = {each for each in processes.pids() if processes.parent(each) == os.getpid()} - {pid}
        over = threading.Event()
        thread = threading.Thread(target=self._take_turns, args=(pid, own, over))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            _adopt(orphans=False)

    def _take_turns(self, pid: int, own: set[int], over: threading.Event) -> None:
        def roots() -> list[int]:
            """The tests' first process, and adopted ones."""
            mine = (each for each in processes.pids() if processes.parent(each) == os.getpid())
            return [pid, *(each for each in mine if each not in own and each != pid)]

        while True:
            until = time.monotonic() + self._runs()
            while (left := until - time.monotonic()) > 0:
                if over.wait(min(left, _LOOK)):
                    return
                _bury(roots()[1:])
            began = time.monotonic()
            stopped = _stop(roots)
            try:
                over.wait(self._rests())
            finally:
                for each in stopped:
                    with suppress(ProcessLookupError):
                        os.kill(each, signal.SIGCONT)
            self.longest = max(self.longest, time.monotonic() - began)


@contextmanager
def load(name: Name, chance: random.Random) -> Iterator[Load]:
    """The load of this name; `chance` draws its pauses."""
    match name:
        case "hog":
            yield BusyLoops()
        case "stall":
            yield Pauses(lambda: chance.uniform(*_BETWEEN), lambda: chance.uniform(*_STALLS))
        case "slow":
            with _third_of_the_processor() as group:
                yield Pauses(lambda: _RUNS, lambda: _RESTS) if group is None else Quota(group)


@contextmanager
def _third_of_the_processor() -> Iterator[Path | None]:
    """A control group; None where this process may not make one."""
    group = _GROUPS / f"inboxd-steady-{os.getpid()}"
    try:
        (_GROUPS / "cgroup.controllers").read_text()  # missing unless it is version 2
        with suppress(OSError):  # it may be set already
            (_GROUPS / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        yield group if _limit(group) else None
    finally:
        with suppress(OSError):  # processes that a test left may still be in it
            group.rmdir()


def _limit(group: Path) -> bool:
    """Give the group a third of all cores; False if the machine has no such quota."""
    quota = (os.cpu_count() or 1) * _PERIOD // 3
    try:
        with (group / "cpu.max").open("r+") as file:  # it must exist: this does not create it
            file.write(f"{quota} {_PERIOD}")
    except OSError:
        return False
    return True


def _stop(roots: Callable[[], list[int]]) -> list[int]:
    """Stop processes and their descendants, parents first; return those that were running."""
    stopped, seen = list[int](), set[int]()
    while new := [pid for pid in processes.below(roots()) if pid not in seen]:
        for pid in new:
            seen.add(pid)
            if processes.lives(pid) and processes.state(pid) != b"T":
                with suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
    return stopped


def _bury(adopted: list[int]) -> None:
    """Wait for ended processes, as init does: tests check whether they are gone."""
    for pid in adopted:
        if processes.state(pid) == b"Z":
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _adopt(*, orphans: bool) -> None:
    """Set whether orphaned descendants become children of this process."""
    if ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, int(orphans), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl refuses to let this process adopt others")
