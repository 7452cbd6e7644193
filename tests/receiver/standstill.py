"""A server that stands still: all of its processes are stopped, as on a machine that swaps."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from inboxd.embedded import Server


@contextmanager
def standing_still(server: Server) -> Iterator[None]:
    """Freeze all processes of a server meanwhile."""
    _signal(server, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(server, signal.SIGCONT)


def _signal(server: Server, number: signal.Signals) -> None:
    """Its first process before the others, so that none is started meanwhile."""
    os.kill(server.pid, number)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has just ended
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == server.pid:
                    os.kill(int(folder.name), number)
