"""Foreign servers as processes of a test.

    with guarded([installed("nginx"), "-c", str(file)], port, log):
        ...  # the server listens

Promises: no server outlives the test's process, even if that process gets SIGKILL.
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

_PLACES = ("/usr/sbin", "/usr/local/sbin")  # only root's PATH has these
_READY_SECONDS = 20.0
# The shell reads a pipe from the test's process. When that process ends, the shell ends the server.
_GUARDED = '"$@" & read -r _; kill -TERM $!; wait $!'


def installed(program: str) -> str | None:
    """The path of a system program."""
    return shutil.which(program, path=os.pathsep.join((os.defpath, *_PLACES)))


@contextmanager
def guarded(
    command: Sequence[str], port: int, log: Path, folder: Path | None = None
) -> Iterator[None]:
    """Run a server in a folder during the block; it listens at a port of this machine."""
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
