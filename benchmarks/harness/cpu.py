"""CPU seconds of processes, and a fixed loop that shows the present speed of the machine.

Known limit: /proc counts in ticks of 10 ms, so figures below a second are coarse.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def seconds(root: int) -> float:
    """CPU seconds of a process and its children, ended ones included."""
    total, parents = 0.0, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # the process has just ended
            parents[int(folder.name)] = int(fields[1]), list(map(int, fields[11:15]))
    for pid, (parent, ticks) in parents.items():
        if root in (pid, parent):
            total += sum(ticks)
    return total / _TICKS


def resident(pid: int, what: str = "VmRSS") -> float:
    """Megabytes of memory of one process; VmHWM is its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    raise LookupError(what)


def calibrate() -> float:
    """Milliseconds of a fixed loop, to compare parts of a run, and machines."""
    started = time.perf_counter()
    total = 0
    for number in range(3_000_000):
        total += number * number % 7
    return (time.perf_counter() - started) * 1000


def pin(root: int, cores: Iterable[int]) -> None:
    """Run a process, and its present and later children, on these cores only."""
    cores = set(cores)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # the process has just ended
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if root in (int(folder.name), int(parent)):
                    os.sched_setaffinity(int(folder.name), cores)
