"""Processes of this machine, from /proc, where an ended process has no entry."""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path


def pids() -> list[int]:
    """The ids of all processes."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def read(pid: int, file: str) -> bytes:
    """A file of a process, such as `cmdline`; empty if it has ended or is another account's."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def state(pid: int) -> bytes:
    """One letter: T for stopped, Z for a zombie; empty if there is no such process."""
    return b"".join(_fields(pid)[:1])


def parent(pid: int) -> int:
    """The process that started or adopted it; 0 if there is no such process."""
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def lives(pid: int) -> bool:
    """Whether it exists and is not a zombie; it may be stopped."""
    return state(pid) not in (b"", b"Z")


def name(pid: int) -> str:
    """The name of a process, for messages."""
    return os.fsdecode(read(pid, "comm")).strip() or "a process"


def below(roots: Iterable[int]) -> list[int]:
    """These processes and all their descendants, parents before children."""
    children = defaultdict[int, list[int]](list)
    for pid in pids():
        children[parent(pid)].append(pid)
    found = list(roots)
    for pid in found:
        found += children[pid]
    return found


def _fields(pid: int) -> list[bytes]:
    """The state, the parent, and the other fields after the name."""
    return read(pid, "stat").rpartition(b")")[2].split()
