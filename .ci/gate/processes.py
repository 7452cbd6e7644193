"""Processes of this machine, as /proc has them; one that has ended has nothing there."""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path


def pids() -> list[int]:
    """All of them."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def read(pid: int, file: str) -> bytes:
    """A file of a process, such as `cmdline`; empty if it has ended, or is another account's."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def state(pid: int) -> bytes:
    """One letter: T for stopped, Z for ended and not waited for; empty if there is none."""
    return b"".join(_fields(pid)[:1])


def parent(pid: int) -> int:
    """The process that started it, or that adopted it; 0 if there is none."""
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def lives(pid: int) -> bool:
    """Whether it runs, or could if it were not stopped."""
    return state(pid) not in (b"", b"Z")


def name(pid: int) -> str:
    """What a person calls it."""
    return os.fsdecode(read(pid, "comm")).strip() or "a process"


def below(roots: Iterable[int]) -> list[int]:
    """These and all that they started, and so on: parents before their children."""
    children = defaultdict[int, list[int]](list)
    for pid in pids():
        children[parent(pid)].append(pid)
    found = list(roots)
    for pid in found:
        found += children[pid]
    return found


def _fields(pid: int) -> list[bytes]:
    """The state, the parent, and so on: what stands behind the name."""
    return read(pid, "stat").rpartition(b")")[2].split()
