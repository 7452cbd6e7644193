"""The daemon of `inboxd dev`: a child that does not outlive its parent, however that ends.

Owns its process, its port and its end. Promises that it drains when dev stops it, that another
Ctrl-C stops it at once, and that it ends when dev is killed. Known limit: of two that pick the same
free port in the same moment, one ends with an error.
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

# Seconds beyond the time to drain, and for a daemon whose dev was killed: its database ends too.
_GRACE = 10.0
# As for the embedded server: this shell waits on a pipe that only dev holds open. The daemon runs
# in a session of its own, so neither the terminal's Ctrl-C nor its end reaches it but through dev.
_GUARD = (
    'read -r _; kill -TERM "$1"; n=0; '
    'while [ "$n" -lt "$2" ] && kill -0 "$1"; do sleep 1; n=$((n + 1)); done; kill -KILL "$1"'
)


def migrate_plugins(arguments: Sequence[str]) -> bool:
    """Run what is new of the plugins' migrations, and say what ran; whether all is well.

    In a process of its own, which sees plugins that were installed since this one began.
    """
    command = [sys.executable, "-P", "-m", "inboxd", "migrate", "--json", *arguments]
    # A session of its own: the terminal's Ctrl-C reaches it through this process only.
    done = subprocess.run(command, stdout=subprocess.PIPE, start_new_session=True, check=False)
    if done.returncode != 0:
        typer.echo("The daemon is not started; it is tried again when a file changes.", err=True)
        return False
    for each in json.loads(done.stdout)["ran"]["plugins"]:
        typer.echo(f"migrated: {each['plugin']} {each['version']:04d}_{each['name']}")
    return True


class Daemon:
    """One life of the daemon."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start `inboxd run` with these arguments, beside the variables of this process."""
        # -P: modules of this folder count only if they are installed, as for `inboxd run`.
        command = [sys.executable, "-P", "-m", "inboxd", "run", *arguments]
        self._process = subprocess.Popen(
            command, env={**os.environ, **environ}, start_new_session=True
        )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._process.pid), f"{_GRACE:.0f}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ended(self) -> int | None:
        """Its exit code, once it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            self._dismiss_guard()
        return code

    def stop(self, drain: float) -> None:
        """Let it drain for that many seconds, and see that it has ended."""
        self._process.terminate()
        deadline = time.monotonic() + drain + _GRACE
        while True:
            try:
                self._process.wait(max(0.0, deadline - time.monotonic()))
            except KeyboardInterrupt:
                self._process.terminate()
            except subprocess.TimeoutExpired:
                self._process.kill()
                deadline += _GRACE
            else:
                break
        self._dismiss_guard()

    def _dismiss_guard(self) -> None:
        """Only now: until here it covers for this process; later the number may be another's."""
        self._guard.kill()
        self._guard.communicate()


def port_of_its_own(host: str, wanted: int, before: int) -> int:
    """The wanted port, or if another process has it, or it is 0, a free one: as before, if it can.

    A port that cannot be had for another reason is reported by the daemon.
    """
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
