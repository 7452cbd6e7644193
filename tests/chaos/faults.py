"""The faults, injected at the times of the schedule.

Promises: a fault ends after its time, whatever happens to the server meanwhile; a fault without a
target is noted. Known limit: a fault on connections affects only those that are open.
"""

import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import anyio
import anyio.to_thread
import asyncpg

from inboxd.embedded import Server
from inboxd.embedded.server import StopMode
from inboxd.store import workers
from inboxd.store.connections import LOST
from tests.chaos.fleet import CRASH_LIMIT, Service
from tests.chaos.schedule import LEASE, Fault, Kind
from tests.support import Database, eventually
from tests.support.proxy import Proxy
from tests.support.rows import daemon_pool

Isolation = Literal["read_committed", "repeatable_read"]
Do = Callable[[Fault], Coroutine[None, None, None]]

_OF_THE_SERVER: tuple[Kind, ...] = ("restart_fast", "restart_immediate", "outage")
_LIVING = "select id, heartbeat from inboxd.workers where name = $1 and state = 'running'"
_WORKERS_SESSIONS = """
select pid from pg_stat_activity
where datname = current_database() and application_name like 'inboxd %' || $1 order by pid
"""
# Without SKIP LOCKED and without a wait: rows in use matter most.
_HOT_ROWS = (
    "select id from inboxd.commands where status = 'running' order by id limit 5 for update",
    "select id from inboxd.commands where status = 'pending' order by run_at limit 5 for update",
    "select id from inboxd.events where status = 'pending' order by run_at limit 20 for update",
    "select id from inboxd.workers where state = 'running' for share",
)


@dataclass
class Faults:
    """The targets; `done` lists the faults so far. Each sleep is a fault's time or length."""

    server: Server
    database: Database
    services: Mapping[str, Service]
    producers: Proxy
    say: Callable[[str], None]
    done: list[Fault] = field(default_factory=list)
    _restarting: anyio.Lock = field(default_factory=anyio.Lock)

    async def run(self, schedule: Sequence[Fault]) -> None:
        """Inject all faults of a schedule; return when the last one has ended."""
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for fault in schedule:
                await anyio.sleep(max(0.0, began + fault.at - time.monotonic()))
                self.say(str(fault))
                tasks.start_soon(self._do, fault)

    async def _do(self, fault: Fault) -> None:
        self.done.append(fault)
        try:
            await self._ways[fault.kind](fault)
        except LOST as error:
            if fault.kind in _OF_THE_SERVER:
                raise  # the server did not come back
            # Another fault came first.
            self.say(f"{fault.kind} met {type(error).__name__}")

    @property
    def _ways(self) -> Mapping[Kind, Do]:
        return {
            "kill": self._kill,
            "term": self._term,
            "insist": self._insist,
            "pause": self._pause,
            "stutter": self._pause,
            "declare_dead": self._declare_dead,
            "isolate": self._isolate,
            "half_open": self._half_open,
            "cut": self._cut,
            "hush": self._hush,
            "stale_flags": self._stale_flags,
            "terminate": self._terminate,
            "slots": self._slots,
            "lock": self._lock,
            "snapshot": self._snapshot,
            "restart_fast": partial(self._restart, "fast"),
            "restart_immediate": partial(self._restart, "immediate"),
            "outage": self._outage,
        }

    # ------------------------------------------------------------------------------ processes

    async def _kill(self, fault: Fault) -> None:
        self.services[fault.target].signal(signal.SIGKILL)

    async def _term(self, fault: Fault) -> None:
        self.services[fault.target].signal(signal.SIGTERM)

    async def _insist(self, fault: Fault) -> None:
        service = self.services[fault.target]
        service.signal(signal.SIGTERM)
        await anyio.sleep(fault.choice)
        service.signal(signal.SIGTERM)

    async def _pause(self, fault: Fault) -> None:
        service = self.services[fault.target]
        service.signal(signal.SIGSTOP)
        try:
            await anyio.sleep(fault.seconds)
        finally:
            service.signal(signal.SIGCONT)

    async def _declare_dead(self, fault: Fault) -> None:
        """Declare a living worker dead without its knowledge: only the fence stops it."""

        async def declared_dead() -> bool:  # each of its acts is a sign of life
            living = await self.database.fetch(_LIVING, fault.target)
            return None not in [
                await workers.declare_dead(pool, row["id"], row["heartbeat"], CRASH_LIMIT)
                for row in living
            ]

        async with daemon_pool(self.database, 1) as pool:
            await eventually(declared_dead)

    # ---------------------------------------------------------------------------- connections

    def _way(self, target: str) -> Proxy:
        return self.producers if target == "producers" else self.services[target].way

    async def _isolate(self, fault: Fault) -> None:
        with self._way(fault.target).silence(""):
            await anyio.sleep(fault.seconds)

    async def _half_open(self, fault: Fault) -> None:
        purpose = "" if fault.target == "producers" else fault.purpose
        with self._way(fault.target).half_open(purpose):
            await anyio.sleep(fault.seconds)

    async def _cut(self, fault: Fault) -> None:
        self._way(fault.target).cut("" if fault.target == "producers" else fault.purpose)

    async def _hush(self, fault: Fault) -> None:
        """Keep all notifications from all workers."""
        with ExitStack() as silence:
            for service in self.services.values():
                silence.enter_context(service.way.silence("listener"))
            await anyio.sleep(fault.seconds)

    # --------------------------------------------------------------------------------- server

    async def _stale_flags(self, _: Fault) -> None:
        """A worker that is killed while producers are silent leaves the flags so."""
        await self.database.execute(
            "select setval('inboxd.events_flag', 0), setval('inboxd.commands_flag', 0)"
        )

    async def _terminate(self, fault: Fault) -> None:
        async with self.database.connect() as operator:
            await _end_some(operator, fault)

    async def _slots(self, fault: Fault) -> None:
        """Take every connection slot, also those of a few sessions that are ended for this."""
        held: list[asyncpg.Connection] = []
        try:
            async with self.database.connect() as operator:
                await self._fill(held)
                await _end_some(operator, fault)
                await self._fill(held)
                await anyio.sleep(fault.seconds)
        finally:
            for connection in held:
                connection.terminate()

    async def _fill(self, held: list[asyncpg.Connection]) -> None:
        with suppress(asyncpg.TooManyConnectionsError):
            while True:
                held.append(await asyncpg.connect(self.database.dsn, timeout=3))

    async def _lock(self, fault: Fault) -> None:
        statement = _HOT_ROWS[int(fault.choice * len(_HOT_ROWS))]
        # Heartbeats wait for the workers' rows, so the lock must be much shorter than a lease.
        most = LEASE / 3 if "workers" in statement else fault.seconds
        async with self._holding("read_committed", statement):
            await anyio.sleep(min(most, fault.seconds))

    async def _snapshot(self, fault: Fault) -> None:
        async with self._holding("repeatable_read", "select count(*) from inboxd.events"):
            await anyio.sleep(fault.seconds)

    @asynccontextmanager
    async def _holding(self, isolation: Isolation, statement: str) -> AsyncIterator[None]:
        async with self.database.connect() as operator, operator.transaction(isolation=isolation):
            await operator.execute("set local lock_timeout = '1s'")
            with suppress(asyncpg.LockNotAvailableError):
                await operator.execute(statement)
                yield
                return
        raise TimeoutError

    async def _restart(self, mode: StopMode, _: Fault) -> None:
        async with self._restarting:
            await anyio.to_thread.run_sync(self.server.restart, mode)

    async def _outage(self, fault: Fault) -> None:
        async with self._restarting:
            outage = self.server.outage("fast" if fault.choice < 0.5 else "immediate")
            await anyio.to_thread.run_sync(outage.__enter__)
            try:
                await anyio.sleep(fault.seconds)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(outage.__exit__, None, None, None)


async def _end_some(operator: asyncpg.Connection, fault: Fault) -> None:
    """End a few of the workers' sessions of the fault's purpose."""
    sessions = [row["pid"] for row in await operator.fetch(_WORKERS_SESSIONS, fault.purpose)]
    chance = random.Random(fault.choice)
    for pid in chance.sample(sessions, min(len(sessions), chance.randint(1, 4))):
        await operator.execute("select pg_terminate_backend($1)", pid)
