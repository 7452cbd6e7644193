"""The daemon of `inboxd dev`: a child process that ends even if its parent is killed.

It drains when dev stops it; another Ctrl-C stops it at once. Known limit: if two daemons pick the
same free port at the same moment, one ends with an error.
"""

import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import typer

from inboxd.embedded import free_port

# Time between the end of the drain and the kill. If dev was killed, there is no drain before, since
# the database ends too.
_GRACE_SECONDS = 10.0
# Like the embedded server's guard, this shell waits on a pipe that only dev holds open. The daemon
# has a session of its own, so a terminal's signals reach it only through dev.
_GUARD = (
    'read -r _; kill -TERM "$1"; n=0; '
    'while [ "$n" -lt "$2" ] && kill -0 "$1"; do sleep 1; n=$((n + 1)); done; kill -KILL "$1"'
)


def migrate_plugins(arguments: Sequence[str]) -> bool:
    """Returns whether all succeeded; a new process sees plugins that were installed since."""
    command = [sys.executable, "-P", "-m", "inboxd", "migrate", "--json", *arguments]
    # A session of its own: the terminal's Ctrl-C must not interrupt a migration.
    done = subprocess.run(command, stdout=subprocess.PIPE, start_new_session=True, check=False)
    if done.returncode != 0:
        typer.echo("The daemon was not started; dev tries again when a file changes.", err=True)
        return False
    for each in json.loads(done.stdout)["ran"]["plugins"]:
        typer.echo(f"migrated: {each['plugin']} {each['version']:04d}_{each['name']}")
    return True


class Daemon:
    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        # -P: as for `inboxd run`, modules of this folder are found only if they are installed.
        command = [sys.executable, "-P", "-m", "inboxd", "run", *arguments]
        self._process = subprocess.Popen(
            command, env={**os.environ, **environ}, start_new_session=True
        )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._process.pid), f"{_GRACE_SECONDS:.0f}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ended(self) -> int | None:
        code = self._process.poll()
        if code is not None:
            self._dismiss_guard()
        return code

    def stop(self, drain: float) -> None:
        """Let the daemon drain for at most `drain` seconds, and wait until it has ended."""
        self._process.terminate()
        deadline = time.monotonic() + drain + _GRACE_SECONDS
        while True:
            try:
                self._process.wait(max(0.0, deadline - time.monotonic()))
            except KeyboardInterrupt:
                self._process.terminate()
            except subprocess.TimeoutExpired:
                self._process.kill()
                deadline += _GRACE_SECONDS
            else:
                break
        self._dismiss_guard()

    def _dismiss_guard(self) -> None:
        """End the guard after the daemon: later, another process may get the daemon's pid."""
        self._guard.kill()
        self._guard.communicate()


def port_of_its_own(host: str, wanted: int, before: int) -> int:
    """If the wanted port is taken or 0: the one used before, or else a free one."""
    if wanted and not _is_taken(host, wanted):
        return wanted
    return before if before and not _is_taken(host, before) else free_port()


def _is_taken(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False
