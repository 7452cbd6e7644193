"""Freezes a server: all of its processes are stopped, as on a machine that swaps.

with standing_still(durable_server):
    assert (await provider.offer("m")).accepted
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from inboxd.embedded import Server


@contextmanager
def standing_still(server: Server) -> Iterator[None]:
    """Freeze all processes of a server for the block."""
    _signal(server, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(server, signal.SIGCONT)


def _signal(server: Server, number: signal.Signals) -> None:
    """Signal the first process before the others, so that it starts no new ones."""
    os.kill(server.pid, number)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # the process has just ended
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == server.pid:
                    os.kill(int(folder.name), number)
