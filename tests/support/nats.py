"""NATS servers with JetStream for the tests, to start, stop, freeze and kill.

    with nats_server() as server, server.stopped():
        ...  # connections stay open, the server does not answer

Promises: each server has its own port and folder, and ends with the test's process, even if that
gets SIGKILL. Stored messages are there after a restart. Debian: `apt install nats-server`.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext

from tests.support.databases import shared_folder
from tests.support.ports import held_port
from tests.support.verdicts import Late
from tests.support.waiting import patient

_PLACES = ("/usr/sbin", "/usr/local/sbin")  # only root's PATH has these
_READY_SECONDS = 20.0
# The shell reads a pipe from the test's process. When that process ends, the shell ends the server.
_GUARDED = '"$@" & read -r how; kill -${how:-KILL} $!; wait $!'

_CONFIG = """
host: 127.0.0.1
port: {port}
pid_file: "{folder}/pid"
log_file: "{folder}/log"
jetstream {{ store_dir: "{folder}/store" }}
{more}
"""


class NatsServer:
    """A server; `address` is its address for settings."""

    host = "127.0.0.1"

    def __init__(self, folder: Path, port: int, more: str) -> None:
        """Start nothing yet. more: further lines of the configuration."""
        self.port = port
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = folder / "nats.conf"
        self._settings.write_text(_CONFIG.format(port=port, folder=folder, more=more))

    @property
    def address(self) -> str:
        """The address, for settings of a broker."""
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        program = shutil.which("nats-server", path=os.pathsep.join((os.defpath, *_PLACES)))
        assert program is not None, "nats-server is not installed: apt install nats-server"
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDED, "guarded", program, "-c", str(self._settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + patient(_READY_SECONDS)
        while not self._answers():
            if time.monotonic() >= deadline:
                raise Late(self._log())
            time.sleep(0.01)

    def stop(self, how: str = "TERM") -> None:
        """End the server with SIGTERM, or with SIGKILL as in a crash ("KILL"); wait for its end."""
        assert self._process is not None
        self._process.communicate(f"{how}\n".encode(), timeout=patient())
        self._process = None
        (self._folder / "pid").unlink(missing_ok=True)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all threads during the block: connections stay open, the server does not answer."""
        os.kill(self._pid(), signal.SIGSTOP)
        try:
            while not self._stands_still():
                time.sleep(0.001)
            yield
        finally:
            os.kill(self._pid(), signal.SIGCONT)

    def close(self) -> None:
        """Kill the server, if it runs."""
        if self._process is not None:
            self.stop("KILL")

    def _pid(self) -> int:
        return int((self._folder / "pid").read_text())

    def _stands_still(self) -> bool:
        """Whether all threads of the server are stopped."""
        threads = Path(f"/proc/{self._pid()}/task").glob("*/stat")
        return all(each.read_text().rpartition(")")[2].split()[0] == "T" for each in threads)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), 1) as plug:
                return plug.recv(4) == b"INFO" and (self._folder / "pid").exists()
        except OSError:
            return False

    def _log(self) -> str:
        log = self._folder / "log"
        return f"nats-server does not answer:\n{log.read_text() if log.exists() else 'no log'}"


@contextmanager
def nats_server(more: str = "") -> Iterator[NatsServer]:
    """A running server. more: further lines of the configuration, such as users."""
    with held_port() as held, shared_folder() as folder:
        server = NatsServer(folder, held.getsockname()[1], more)
        try:
            server.start()
            yield server
        finally:
            server.close()


@asynccontextmanager
async def nats_client(server: NatsServer, **options: str) -> AsyncIterator[Client]:
    """A plain client, for a test's own requests."""
    client = await nats.connect(f"nats://{server.address}", allow_reconnect=False, **options)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def jetstream(server: NatsServer) -> AsyncIterator[JetStreamContext]:
    """A JetStream context of a plain client."""
    async with nats_client(server) as client:
        yield client.jetstream()
