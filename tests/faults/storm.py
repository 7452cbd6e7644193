"""A storm: one kind of fault, repeated at random moments, while producers write.

    storm = Storm(ledger, seed)
    async with storm.load():
        await storm.strike(4, crew.kill)
    await storm.verify()

Owns the load, the moments, the workers and the proof. The seed, in the test's name, repeats the
storm: its victims, faults and pauses. The proof is the ledger, which handlers write in their own
transaction: each effect once, each accepted row settled, each child sent once.

Known limit: the seed does not repeat the timing of the processes; more seeds make up for that.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import asyncpg
import pytest

from inboxd.store.connections import LOST
from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.rows import effects, emit, send, unsettled
from tests.support.verdicts import Late, safety

# Deaths and lost connections are frequent here, and would convict innocent rows.
ROUGH: dict[str, dict[str, Any]] = {
    "types": {"test.ledger": {"retry": {"attempts": 100}}},
    "worker": {"crash_limit": 100, "lease": "3s", "heartbeat_interval": "700ms"},
}
# For storms without deaths: a machine may pause for some seconds.
UNHURRIED: dict[str, dict[str, Any]] = {**ROUGH, "worker": {**ROUGH["worker"], "lease": "60s"}}
_WITHIN = 60.0


def seeds(short: int = 1, long: int = 5) -> list[Any]:
    """Parameters for `seed`: the first ones for each run, the others for `make test-long`."""
    more = [pytest.mark.long, pytest.mark.soak]
    return [
        pytest.param(n, id=f"seed{n}", marks=[] if n < short else more) for n in range(short + long)
    ]


class Storm:
    """The load on a database, the faults, and the proof."""

    def __init__(self, database: Database, seed: int, *, padding: str = "") -> None:
        """Derive all random choices from `seed`; `padding` is in every payload."""
        self._more = {"padding": padding} if padding else {}
        self.chance = random.Random(seed)
        self._database = database
        self._stopping = False
        # Rows whose commit was confirmed; where the answer was lost, the database knows.
        self.accepted: dict[str, list[int]] = {"event": [], "command": []}

    # ------------------------------------------------------------------------------- the load

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Let producers write during the block, whatever happens to the database."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._produce)
            yield
            self._stopping = True

    async def _produce(self) -> None:
        while not self._stopping:
            try:
                async with self._database.connect() as connection:
                    while not self._stopping:
                        await self.write(connection)
                        await eventually(self._is_wanted, _WITHIN)
            except LOST:
                continue

    async def write(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """Insert a few rows of every kind, in one transaction."""
        async with connection.transaction():
            events = await emit(connection, 3, wait=0.002, sends=1, **self._more)
            commands = await send(connection, 2, wait=0.01, **self._more)
            # These never use the database, so their settlements are gathered.
            commands += await send(connection, 2, "test.wait", wait=0.01, **self._more)
        self.accepted["event"] += events
        self.accepted["command"] += commands

    async def _is_wanted(self) -> bool:
        """Whether the workers keep up, so that their backlog ends in time."""
        backlog: int = await self._database.fetchval(
            "select (select count(*) from inboxd.events where run_at <= now())"
            " + (select count(*) from inboxd.commands where run_at <= now() and status = 'pending')"
        )
        return self._stopping or backlog < 100

    # ------------------------------------------------------------------------------ the faults

    async def strike(
        self,
        times: int,
        blow: Callable[[], Awaitable[None]],
        *,
        rows: int = 20,
        spread: float = 0.3,
    ) -> None:
        """Inject a fault repeatedly, each time after `rows` more rows of both kinds and a pause."""
        for _ in range(times):
            await self.progress(rows)
            # Not a wait: the moment of the fault varies.
            await anyio.sleep(self.chance.uniform(0, spread))
            await blow()
        await self.progress(rows)

    async def progress(self, rows: int) -> None:
        """Wait until this many more rows of both kinds are settled."""
        before = await eventually(self._settled)

        async def more() -> bool:
            return await self._settled() >= before + rows

        await eventually(more, _WITHIN)

    async def _settled(self) -> int:
        # Plus 1, so that the result is truthy even without settled rows.
        count: int = await self._database.fetchval(
            "select 1 + least((select count(*) from inboxd.events_history),"
            " (select count(*) from inboxd.commands_history))"
        )
        return count

    # ------------------------------------------------------------------------------ the proof

    async def verify(self) -> None:
        """Wait until all rows are settled, and assert that every effect occurred once."""
        try:
            await eventually(self._nothing_left, _WITHIN)
        except AssertionError as error:
            for kind in self.accepted:
                await effects(self._database, kind)  # a repeated effect is worse
            left = {
                table: await unsettled(self._database, table) for table in ("events", "commands")
            }
            counts = {table: len(rows) for table, rows in left.items()}
            some = [row for rows in left.values() for row in rows[:5]]
            held = await self._database.fetch(
                "select pid, application_name, state, wait_event, now() - xact_start as age,"
                " left(query, 80) as query from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
                " and xact_start is not null"
            )
            raise Late(
                f"{counts} rows are left: {some}; sessions in a transaction: {held}"
            ) from error
        for kind, accepted in self.accepted.items():
            await self._verify_kind(kind, accepted)
        wrong = await self._database.fetch(
            "select e.id, count(c.id) from inboxd.events_history e left join"
            " inboxd.commands_history c on c.origin_kind = 'event' and c.origin_id = e.id"
            " group by 1 having count(c.id) <> 1"
        )
        with safety():
            assert not wrong, f"events without exactly one child: {wrong[:5]}"

    async def _verify_kind(self, kind: str, accepted: list[int]) -> None:
        history = await self._database.fetch(f"select id, type, status from inboxd.{kind}s_history")
        ids = [row["id"] for row in history]
        ends = {row["status"] for row in history}
        with safety():
            assert len(ids) == len(set(ids)), f"a {kind} is twice in history"
            assert not set(accepted) - set(ids), f"an accepted {kind} is lost"
            assert ends == {"succeeded"}, f"{kind}s ended as {ends}"
        written = {row["id"] for row in history if row["type"] == "test.ledger"}
        seen = await effects(self._database, kind)
        wrong = {row: seen[row] for row in {*written, *seen} if seen[row] != (row in written)}
        with safety():
            assert not wrong, f"{kind}s without exactly one effect: {wrong}"

    async def _nothing_left(self) -> bool:
        left: int = await self._database.fetchval(
            "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"
        )
        return left == 0

    async def no_crash(self) -> None:
        """Assert that no worker was declared dead, and no crash was counted."""
        crashed = await self._database.fetch(
            "select 'command', id from inboxd.commands_history where crashes > 0 union all"
            " select 'event', id from inboxd.events_history where crashes > 0 union all"
            " select 'worker', pid from inboxd.workers where state = 'dead'"
        )
        assert not crashed, f"declared dead, or counted as a crash: {crashed}"


class Crew:
    """Workers, of which some die and are replaced."""

    def __init__(self, start: StartWorker, config: Config, chance: random.Random) -> None:
        """Start workers with `start` and `config`; `chance` selects victims."""
        self._start = start
        self._config = config
        self._chance = chance
        self.workers: list[Worker] = []

    async def hire(self, count: int = 1) -> None:
        """Start more workers, and wait until they are ready."""
        for _ in range(count):
            self.workers.append(await self._start(self._config))

    async def kill(self) -> None:
        """Send SIGKILL to a worker, and start another one."""
        victim = self._chance.choice(self.workers)
        victim.kill()
        self.workers.remove(victim)
        await self.hire()

    async def stop(self, longest: float) -> None:
        """Freeze a worker (SIGSTOP) for at most this many seconds."""
        victim = self._chance.choice(self.workers)
        victim.pause()
        await anyio.sleep(self._chance.uniform(0, longest))
        victim.resume()


@asynccontextmanager
async def supervised(start: StartWorker, config: Config) -> AsyncIterator[list[Worker]]:
    """A worker that is restarted whenever it dies, as a service manager does."""
    lives: list[Worker] = []
    over = False

    async def supervise() -> None:
        while not over:
            lives.append(await start(config, ready=False))
            await lives[-1].wait(within=120)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(supervise)
        yield lives
        over = True
        lives[-1].kill()
