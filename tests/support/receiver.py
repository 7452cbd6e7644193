"""A receiver as its operator runs it: `python -m inboxd receive -c config.toml`.

    receiver = await start_receiver()  # a fixture
    async with receiver.provider().load():
        receiver.kill()

Promises: the port stays reserved while the test holds its socket, also during a restart.
"""

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.support.sender import SECRET, Provider
from tests.support.worker import Config, Worker

# The topic of these tests: results of matches, those of a match in order.
TOPIC = "insert into inboxd.topics (name, mode, source) values ('results', 'sequential', 'bets')"

_SOURCE: Mapping[str, Any] = {
    "keys": [{"secret": SECRET}],
    "type": "result.received",
    "topics": ["results"],
    "ordering_key": "pointer:/match",
}
# One event for each element of a JSON array, all or none.
ARRAY: Mapping[str, Any] = {"items": ""}


class Receiver(Worker):
    """One receiver. Public attributes besides a worker's: `port`."""

    def __init__(
        self,
        folder: Path,
        dsn: str,
        port: int,
        *,
        http: Mapping[str, Any],
        source: Mapping[str, Any],
        config: Config,
        spool: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        forked: bool = True,
    ) -> None:
        """Start a receiver with one source, `bets`; the mappings override the tests' defaults.

        spool: overrides of the spool's settings; None: no spool.
        """
        self.port = port
        inbound = {
            "http": {"port": port, "answer_within": "30s", **http},
            "webhooks": {"bets": {**_SOURCE, **source}},
        }
        if spool is not None:
            inbound["spool"] = {"path": str(folder / "spool"), "after": "300ms", **spool}
        # Required settings of a worker; this receiver hosts none.
        merged = {"worker": {"plugins": []}, **config, "inbound": inbound}
        super().__init__(folder, dsn, merged, forked=forked, command=["receive", *arguments])

    @property
    def resident(self) -> float:
        """Resident memory now, in megabytes."""
        return self._memory("VmRSS")

    @property
    def most_resident(self) -> float:
        """Peak of resident memory, in megabytes."""
        return self._memory("VmHWM")

    def reload(self) -> None:
        """Make it read its settings again (SIGHUP)."""
        os.kill(self.process.pid, signal.SIGHUP)

    def provider(self, **changes: Any) -> Provider:
        """A provider that sends to this receiver."""
        return Provider(self.port, **changes)

    def _memory(self, which: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(which))
        return int(line.split()[1]) / 1024

    def holds(self) -> None:
        """Assert that it lives, and that its log has no traceback."""
        assert self.process.poll() is None, f"The receiver has ended:\n{self.output()}"
        assert "Traceback" not in self.output(), self.output()


class StartReceiver(Protocol):
    """The type of the fixture `start_receiver`."""

    async def __call__(
        self,
        *,
        http: Mapping[str, Any] = ...,
        source: Mapping[str, Any] = ...,
        config: Config = ...,
        spool: Mapping[str, Any] | None = None,
        port: int | None = None,
        dsn: str | None = None,
        arguments: Sequence[str] = (),
        ready: bool = True,
    ) -> Receiver:
        """Start a receiver on the test's database; wait until it is ready, unless `ready` is false.

        port: of an earlier receiver. dsn: another way to the database.
        """


class MakeProvider(Protocol):
    """The type of the fixture `provider_of`."""

    def __call__(self, receiver: Receiver, **changes: Any) -> Provider:
        """A provider that sends to a receiver."""


def port_of(held: socket.socket) -> int:
    """The port that a socket holds."""
    found: int = held.getsockname()[1]
    return found
