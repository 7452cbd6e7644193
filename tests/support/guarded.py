"""Other people's servers as processes of a test: ready when they listen, ended with their owner.

Promises that none outlives the test that started it, SIGKILL of the test's process included.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.verdicts import Late
from tests.support.waiting import patient

_PLACES = ("/usr/sbin", "/usr/local/sbin")  # in no PATH but root's
_READY_SECONDS = 20.0
# The shell holds the pipe from its owner; when that ends, however it does, the server does.
_GUARDED = '"$@" & read -r _; kill -TERM $!; wait $!'


def installed(program: str) -> str | None:
    """Where a program of the system is."""
    return shutil.which(program, path=os.pathsep.join((os.defpath, *_PLACES)))


@contextmanager
def guarded(
    command: Sequence[str], port: int, log: Path, folder: Path | None = None
) -> Iterator[None]:
    """A server that runs meanwhile, in a folder, and listens at a port of this machine."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDED, "guarded", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=folder,
        )
    try:
        _wait_until_ready(command[0], port, log)
        yield
    finally:
        process.communicate(timeout=patient())


def _wait_until_ready(program: str, port: int, log: Path) -> None:
    deadline = time.monotonic() + patient(_READY_SECONDS)
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise Late(f"{program} does not answer:\n{log.read_text(errors='replace')}")
