"""What killed test runs left on this machine: processes that lost their parent, and folders.

An orphan (its parent is process 1) that works in a folder of tests, has a file of it open, or names
it as an argument is killed: a PostgreSQL server, a worker, a proxy. Then each folder of tests that
no process uses in one of these ways is removed. The processes of a run that goes on have a parent
that lives.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gate.settings import Leftovers

# Clusters of `inboxd dev` are among the data, and nobody need run one to want it: only those that
# were not used for a day are removed.
_DATA_SECONDS = 86_400.0

_END_SECONDS = 10.0


def clean(places: Leftovers) -> list[str]:
    """End the orphans and remove the folders; returns what was done, a line each."""
    orphans = _kill_orphans(_found(*places.folders, *places.worked_in, *places.data))
    done = [f"killed {each}" for each in orphans]
    used = [text for _, text in _mentions()]
    old = (each for each in _found(*places.data) if time.time() - _last_used(each) > _DATA_SECONDS)
    for folder in [*_found(*places.folders), *old]:
        if not any(_is_of(folder, text) for text in used):
            shutil.rmtree(folder, ignore_errors=True)
            done.append(f"removed {folder}")
    return done


def _kill_orphans(folders: Sequence[Path]) -> list[str]:
    mine = _ancestors()
    orphans: dict[int, str] = {}
    for pid, text in _mentions():
        if pid not in mine and _parent(pid) == 1 and any(_is_of(each, text) for each in folders):
            orphans.setdefault(pid, f"{_name(pid)} ({pid})")
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        for pid in filter(_lives, orphans):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline and any(map(_lives, orphans)):
            time.sleep(0.05)
    return list(orphans.values())


def _mentions() -> Iterator[tuple[int, str]]:
    """Each process with each of its arguments, its working folder, and its open files."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            pid = int(process.name)
            with suppress(OSError):
                for argument in (process / "cmdline").read_bytes().split(b"\0"):
                    yield pid, os.fsdecode(argument)
            with suppress(OSError):
                yield pid, str((process / "cwd").readlink())
            with suppress(OSError):
                for file in (process / "fd").iterdir():
                    with suppress(OSError):
                        yield pid, str(file.readlink())


def _is_of(folder: Path, text: str) -> bool:
    """Whether a text has the folder's path in it, not that of a longer name."""
    _, found, rest = text.partition(str(folder))
    return bool(found) and (not rest or not (rest[0].isalnum() or rest[0] in "-_."))


def _found(*patterns: str) -> list[Path]:
    found = (each for pattern in patterns for each in Path("/").glob(pattern.lstrip("/")))
    return sorted(each for each in found if each.is_dir())


def _last_used(folder: Path) -> float:
    times = [folder.stat().st_mtime]
    for each in folder.iterdir():
        with suppress(OSError):
            times.append(each.stat().st_mtime)
    return max(times)


def _ancestors() -> set[int]:
    """This process, its parent, and so on."""
    found, pid = set[int](), os.getpid()
    while pid > 1:
        found.add(pid)
        pid = _parent(pid)
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process"
