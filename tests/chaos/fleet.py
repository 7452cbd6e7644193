"""Workers under a small supervisor that restarts processes that end, as systemd would.

    async with fleet(dsn, folder) as services:
        services["one"].signal(signal.SIGKILL)

Promises: each life has its own log file; processes that a life leaves behind are known; no process
outlives `fleet`.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from tests.chaos.schedule import LEASE, WORKERS
from tests.support import Config, Worker, eventually
from tests.support.proxy import Proxy, proxy

# The exit code of wrong settings, at which the service ends, as deploy/ sets it for systemd.
_HOPELESS = 78
_FOR_EVER = 24 * 3600.0
_RESTART_SEC = 0.2

# The schedule kills more often than the default allows; the verdict counts the deaths instead.
CRASH_LIMIT = 100
# Queues with a limit over all workers: running commands, claims per second.
LIMITED = ("scarce", "paced")
AT_ONCE = 3
PER_SECOND = 20
_YEARLY = "0 0 1 1 *"


def schedule(place: int) -> str:
    """The name of a schedule."""
    return f"chaos.{place}"


def catches_up(place: int) -> bool:
    """Whether a schedule sends all missed runs, or one; every third one does."""
    return place % 3 == 0


# They come due only at New Year: the operator moves them.
SCHEDULES = 40
_SCHEDULES = {
    schedule(place): {
        "cron": _YEARLY,
        "missed": "all" if catches_up(place) else "once",
        "time_field": "at",
        **({"event": "chaos.struck"} if place % 2 else {"command": "chaos.tick"}),
    }
    for place in range(SCHEDULES)
}
_CONFIG: Config = {
    "database": {
        "statement_timeout": "5s",
        "lock_timeout": "2s",
        "connect_timeout": "3s",
        "handler_pool_size": 6,
    },
    "events": {"timeout": "1s", "page_rows": 100},
    "commands": {"concurrency": 40},
    "queues": {
        "narrow": {"concurrency": 3},
        "processes": {"concurrency": 2},
        "chaos.scarce": {"total_concurrency": AT_ONCE},
        "chaos.paced": {"rate": f"{PER_SECOND}/s"},
    },
    "schedules": _SCHEDULES,
    "maintenance": {"interval": "5s"},
    "log": {"format": "json", "level": "info"},
}
# The first worker's transactions end while it is frozen; the second one's outlive its lease, so
# that only the fence prevents their commit.
_PATIENCE = dict(zip(WORKERS, ("3s", "14s"), strict=True))
_WORKER = {
    "plugins": ["testplugin"],
    "lease": f"{LEASE:g}s",
    "heartbeat_interval": "1s",
    "poll_interval": "1s",
    "drain_timeout": "4s",
    "crash_limit": CRASH_LIMIT,
}


@dataclass
class Service:
    """A worker and its lives. exits: codes of ended lives. left: processes left behind."""

    name: str
    way: Proxy
    folder: Path
    lives: list[Worker] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    stopping: bool = False

    @property
    def worker(self) -> Worker:
        return self.lives[-1]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the newest life, if there is one."""
        if self.lives:
            self.worker.process.send_signal(number)

    async def run(self) -> None:
        """Start the worker, and restart it when it ends."""
        while not self.stopping:
            folder = self.folder / f"{self.name}-{len(self.lives) + 1:03}"
            folder.mkdir()
            # Each has its own interpreter, as in operation: forked workers share a hash seed, and
            # iterate sets in the same order.
            self.lives.append(Worker(folder, self.way.dsn, self._settings(), forked=False))
            await eventually(self._has_ended, within=_FOR_EVER)
            self.exits.append(self.worker.process.wait())
            await self._look_for_children()
            if self.exits[-1] == _HOPELESS:
                return
            await anyio.sleep(_RESTART_SEC)  # a supervisor's pause, not a wait

    def _settings(self) -> Config:
        patience = {"idle_in_transaction_timeout": _PATIENCE[self.name]}
        return {
            **_CONFIG,
            "database": {**_CONFIG["database"], **patience},
            "worker": {**_WORKER, "name": self.name},
        }

    async def _has_ended(self) -> bool:
        return self.worker.process.poll() is not None

    async def _look_for_children(self) -> None:
        """Wait until executor processes notice their parent's death; note those that do not."""
        group = self.worker.process.pid

        async def is_gone() -> bool:
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return True
            return False

        try:
            await eventually(is_gone)
        except AssertionError:
            self.left.append(group)

    def logs(self) -> list[Path]:
        """The log of each life."""
        return [worker.log for worker in self.lives]

    def kill(self) -> None:
        """Kill the newest life, and processes that earlier ones left behind."""
        for group in (*self.left, *(worker.process.pid for worker in self.lives[-1:])):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        if self.lives:
            self.worker.process.wait()


@asynccontextmanager
async def fleet(dsn: str, folder: Path) -> AsyncIterator[dict[str, Service]]:
    """All workers, each behind a proxy of its own."""
    with ExitStack() as ways:
        services = {name: Service(name, ways.enter_context(proxy(dsn)), folder) for name in WORKERS}
        async with anyio.create_task_group() as tasks:
            for service in services.values():
                tasks.start_soon(service.run)
            try:
                yield services
            finally:
                for service in services.values():
                    service.stopping = True
                    service.kill()
                tasks.cancel_scope.cancel()
