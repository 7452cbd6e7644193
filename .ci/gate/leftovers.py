"""Removes what killed test runs have left on this machine: servers, other processes, folders.

A name does not prove that something is a leftover, so the gate checks more than that:
- The folder of a PostgreSQL server of tests has a file `lock`. Its owner holds a lock on that file
  until it ends: if the lock is free, the server is ended and the folder removed.
- A process that a test started has PYTEST_CURRENT_TEST in its environment. It is killed if it has
  no pytest as an ancestor, and its command line is one of inboxd's.
- Other folders are removed only in CI, where no developer keeps data, if no process uses them.
"""

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gate.processes import lives, name, parent, pids, read
from gate.settings import Leftovers

_END_SECONDS = 10.0
_MARK = b"\0PYTEST_CURRENT_TEST="
# The command lines of the daemon, and of the process that forks workers for tests.
_OURS = (b"inboxd", b"tests.support.forker")


def clean(places: Leftovers, *, in_ci: bool) -> list[str]:
    """End and remove leftovers; return a line for each action."""
    orphans = {pid: name(pid) for pid in _orphans()} if places.processes else {}
    done = [f"killed {orphans[pid]} ({pid})" for pid in _end(orphans)]
    for folder in _found(places.servers if not in_ci else places.servers + places.embedded_servers):
        with _lock(folder / "lock") as is_free:
            if is_free:
                done += _remove_server(folder)
    if in_ci:
        used = set(_used())
        for folder in _found(places.servers + places.folders):
            if not (folder / "lock").exists() and not any(_is_in(path, folder) for path in used):
                done += _remove(folder)
    return done


# ----------------------------------------------------------------------------------- servers


@contextmanager
def _lock(file: Path) -> Iterator[bool]:
    """Take the lock of a folder if it exists and is free; yield whether it was taken."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(file.open("rb"))
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except OSError:  # no lock file, no right to open it, or a living owner
            is_free = False
        yield is_free


def _remove_server(folder: Path) -> list[str]:
    """End the server of a folder, if it runs; remove the folder, and that of its socket."""
    cluster, done, socket = folder / "cluster", list[str](), ""
    with suppress(OSError, IndexError, ValueError):
        lines = (cluster / "postmaster.pid").read_text().splitlines()
        pid, socket = int(lines[0]), lines[4]
        if str(cluster).encode() in read(pid, "cmdline").split(b"\0"):
            done += [f"killed postgres ({each})" for each in _end([pid])]
        is_its_own = Path(socket).stat().st_uid == cluster.stat().st_uid
        if is_its_own and Path(socket).match("/tmp/inboxd-*"):  # noqa: S108 - the place of servers' sockets
            shutil.rmtree(socket, ignore_errors=True)
    return done + _remove(folder)


def _remove(folder: Path) -> list[str]:
    shutil.rmtree(folder, ignore_errors=True)
    return [] if folder.exists() else [f"removed {folder}"]


def _found(patterns: Iterable[str]) -> list[Path]:
    found = (each for pattern in patterns for each in Path("/").glob(pattern.lstrip("/")))
    return sorted(each for each in found if each.is_dir() and not each.is_symlink())


# ---------------------------------------------------------------------------------- processes


def _orphans() -> Iterator[int]:
    """Processes of inboxd that a test started, and whose pytest has ended."""
    for pid in pids():
        marked = _MARK in b"\0" + read(pid, "environ")
        ours = any(each in read(pid, "cmdline") for each in _OURS)
        if marked and ours and not _belongs_to_pytest(pid):
            yield pid


def _belongs_to_pytest(pid: int) -> bool:
    while pid > 1:
        if b"pytest" in read(pid, "cmdline"):
            return True
        pid = parent(pid)
    return False


def _end(given: Iterable[int]) -> list[int]:
    """End processes, at last with SIGKILL; return those that have ended."""
    given_pids = list(given)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        for pid in filter(lives, given_pids):
            with suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + _END_SECONDS
        while any(map(lives, given_pids)) and time.monotonic() < deadline:
            time.sleep(0.05)
    return [pid for pid in given_pids if not lives(pid)]


def _used() -> Iterator[str]:
    """Paths that processes use: arguments, working folders, open files, bound sockets."""
    for pid in pids():
        yield from map(os.fsdecode, read(pid, "cmdline").split(b"\0"))
        process = Path(f"/proc/{pid}")
        with suppress(OSError):
            yield str((process / "cwd").readlink())
            for file in (process / "fd").iterdir():
                with suppress(OSError):
                    yield str(file.readlink())
    with suppress(OSError):
        yield from Path("/proc/net/unix").read_text(errors="replace").split()


def _is_in(text: str, folder: Path) -> bool:
    """Whether a text names the folder or a path in it, perhaps after an option's name."""
    _, found, rest = text.partition(str(folder))
    return bool(found) and (not rest or not (rest[0].isalnum() or rest[0] in "-_."))
