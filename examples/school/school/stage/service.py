"""The school's service as its operator starts it: `python -m uvicorn --factory school.api:create`.

Owns the process. Promises: the service answers on a free port when `running` yields it, and has
ended when the block ends.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path

import anyio
import anyio.to_thread

_READY_SECONDS = 30.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_CREATED = 201


class ServiceError(Exception):
    """The service did not start, or gave another answer than 201."""


class Service:
    """A client of the service at a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def post(self, path: str, body: object) -> None:
        """Post JSON. Raises ServiceError unless the answer is 201."""
        await anyio.to_thread.run_sync(self._post, path, json.dumps(body))

    def _post(self, path: str, body: str) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        if answer.status != _CREATED:
            raise ServiceError(f"POST {path} was answered with {answer.status}: {text}")


@asynccontextmanager
async def running(dsn: str, log: Path) -> AsyncIterator[Service]:
    """Run the service during the block. Raises ServiceError if it does not start."""
    command = [sys.executable, "-m", "uvicorn", "--factory", "school.api:create", "--port", "0"]
    # In a session of its own: Ctrl-C reaches the demo alone, which then stops the service.
    with log.open("wb") as output:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "SCHOOL_DSN": dsn},
            start_new_session=True,
        )
    try:
        port = None
        with anyio.move_on_after(_READY_SECONDS):
            while port is None and process.returncode is None:
                await anyio.sleep(_LOOK_SECONDS)
                port = _port_of(_read(log))
        if port is None:
            raise ServiceError(f"the service did not start:\n{_read(log)}")
        yield Service(port)
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.terminate()
            with anyio.move_on_after(_STOP_SECONDS):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()


def _read(log: Path) -> str:
    return log.read_text(errors="replace")


def _port_of(log: str) -> int | None:
    """The free port, which uvicorn prints once it listens."""
    said = re.search(r"running on http://127\.0\.0\.1:(\d+)", log)
    return int(said[1]) if said else None
