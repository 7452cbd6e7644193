"""inboxd and services as real processes, started as their operators start them.

Owns the processes. Promises: a process is ready when `running` yields it, and has ended when the
block ends, whatever happens in the block; an error shows the end of the process's log.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
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
_SERVER_ERROR = 500


class ProcessError(Exception):
    """A process failed, or did not become ready; the message shows the end of its log."""


class Program:
    """A command line; its environment is the demo's, without INBOXD_ variables, and `given`."""

    def __init__(self, command: Sequence[str], *, log: Path, port: int, **given: str) -> None:
        """Start nothing yet; a process is ready when `GET /readyz` at `port` answers below 500."""
        self._command = [sys.executable, "-m", *command]
        self._log = log
        self._port = port
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("INBOXD_")}
        self._environment: Mapping[str, str] = {**inherited, **given}

    async def done(self) -> None:
        """Run the command to its end. Raises ProcessError if it fails."""
        process = await self._start()
        async with process:
            if await process.wait() != 0:
                raise self.failure("failed")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Process]:
        """Run the command during the block. Raises ProcessError if it does not become ready."""
        process = await self._start()
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

    def failure(self, what: str) -> ProcessError:
        """An error that shows the end of the log."""
        lines = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return ProcessError(
            "\n".join([f"{' '.join(self._command[1:])} {what}; the end of its log:", *lines])
        )

    async def _start(self) -> Process:
        # In a session of its own: Ctrl-C reaches the demo alone, which then stops the process.
        with self._log.open("ab") as log:
            return await anyio.open_process(
                self._command,
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
            return connection.getresponse().status < _SERVER_ERROR
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def inboxd(*arguments: str, config: Path, log: Path, port: int, **given: str) -> Program:
    """`inboxd` with the settings of a file, which `given` overrides; `port`: its health checks."""
    command = ["inboxd", *arguments, "-c", str(config)]
    return Program(command, log=log, port=port, INBOXD_HTTP__PORT=str(port), **given)


def service(factory: str, *, log: Path, port: int, **given: str) -> Program:
    """An ASGI application, served by uvicorn at `port` of this machine."""
    command = ["uvicorn", "--factory", factory, "--port", str(port), "--no-access-log"]
    return Program(command, log=log, port=port, **given)


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    with anyio.move_on_after(_DRAIN_SECONDS) as draining:
        await process.wait()
    if draining.cancelled_caught:
        process.kill()
        await process.wait()
