"""The daemon as its operator starts it: `python -m inboxd migrate`, then `python -m inboxd run`.

Owns the two processes. Promises: the daemon is ready when `running` yields it, and has ended when
the block ends, whatever happens in the block; an error shows the end of the daemon's log.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import Process

_READY_SECONDS = 60.0
_DRAIN_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_LOG_LINES = 20


class DaemonError(Exception):
    """inboxd failed, or did not become ready; the message shows the end of its output."""


class Daemon:
    """One inboxd on one database; `environment` has settings that override the file's."""

    def __init__(self, config: Path, log: Path, http_port: int, **environment: str) -> None:
        self._command = [sys.executable, "-m", "inboxd"]
        self._config = ["-c", str(config)]
        self._log = log
        self._port = http_port
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("INBOXD_")}
        self._environment: Mapping[str, str] = {
            **inherited,
            **environment,
            "INBOXD_HTTP__PORT": str(http_port),
        }

    async def migrate(self) -> None:
        """Bring the database to this version. Raises DaemonError if that fails."""
        process = await self._start("migrate")
        async with process:
            if await process.wait() != 0:
                raise self.failure("could not migrate")

    async def ask(self, *arguments: str) -> str:
        """Run a command of `inboxd`; returns its output. Raises DaemonError if it fails."""
        done = await anyio.run_process(
            [*self._command, *arguments, *self._config],
            env=self._environment,
            check=False,
            start_new_session=True,
        )
        if done.returncode != 0:
            output = done.stderr.decode(errors="replace")
            raise DaemonError(f"inboxd {' '.join(arguments)} failed:\n{output}")
        return done.stdout.decode()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Process]:
        """Run the daemon during the block. Raises DaemonError if it does not become ready."""
        process = await self._start("run")
        try:
            with anyio.move_on_after(_READY_SECONDS) as waiting:
                while not await anyio.to_thread.run_sync(self._is_ready):
                    if process.returncode is not None:
                        raise self.failure(f"ended with exit code {process.returncode}")
                    await anyio.sleep(_LOOK_SECONDS)
            if waiting.cancelled_caught:
                raise self.failure(f"was not ready within {_READY_SECONDS:.0f} seconds")
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process)

    def failure(self, what: str) -> DaemonError:
        """An error that shows the end of the log."""
        lines = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return DaemonError("\n".join([f"inboxd {what}; the end of its log:", *lines]))

    async def _start(self, verb: str) -> Process:
        # In a session of its own: Ctrl-C reaches the demo alone, which then stops the daemon.
        with self._log.open("ab") as log:
            return await anyio.open_process(
                [*self._command, verb, *self._config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


async def _stop(process: Process) -> None:
    """Let the process drain; kill it if it does not end."""
    if process.returncode is None:
        process.terminate()
    with anyio.move_on_after(_DRAIN_SECONDS) as draining:
        await process.wait()
    if draining.cancelled_caught:
        process.kill()
        await process.wait()
