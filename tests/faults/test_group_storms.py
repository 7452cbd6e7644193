# ruff: noqa: E501 - the questions at the end are SQL
"""Batches and workflows in a storm of everything at once: promise 6.

Workers run and are killed; producers send batches, fill open ones together and send graphs;
operators cancel, dismiss and replay. At the end failed commands are mended and replayed. Then every
count is correct, each continuation has run once and only if its condition held, and nothing waits.
"""

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import asyncpg
import pytest

from inboxd import operations
from inboxd.errors import InboxdError
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.groups import WRONG_GROUPS
from tests.support.rows import Hasty, daemon_session, emit
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

HOWS = ["ok", "ok", "sql", "sql", "slow", "fail"]
CONDITIONS = ["", " succeeded", " failed", " finished"]
TERMS = operations.Terms(actor="storm")


class Storm:
    """Producers and operators; `choice` decides everything but races."""

    def __init__(self, database: Database, seed: int) -> None:
        self.database = database
        self.choice = random.Random(seed)
        self.over = False
        self.done: Counter[str] = Counter()

    def hows(self, most: int = 6) -> list[str]:
        return self.choice.choices(HOWS, k=self.choice.randint(0, most))

    def members(self) -> str:
        return json.dumps([_work(how) for how in self.hows()])

    async def handlers(self) -> None:
        """Emit events whose handlers make batches and workflows."""
        inner = [self.hows(3) for _ in range(self.choice.randint(0, 2))]
        await emit(self.database, 1, "batch.make", members=self.hows(), inner=inner)
        steps: list[Any] = []
        for number in range(self.choice.randint(1, 6)):
            before = [each[0] for each in steps]
            after = self.choice.sample(before, min(len(before), self.choice.randint(0, 2)))
            how = self.choice.choice(["ok", "sql", "fail", "batch", "nested"])
            waits = [name + self.choice.choice(CONDITIONS) for name in after]
            steps.append([f"s{number}", how, waits])
        await emit(self.database, 1, "flow.make", steps=steps, reads=False)

    async def producer(self) -> None:
        """Send a batch by SQL, and a command that waits for an existing batch or command."""
        async with self.database.connect() as connection:
            ids = await connection.fetchval(
                "select array_agg(id) from (select batch_id id from inboxd.batches union all "
                "select command_id from inboxd.commands order by 1 desc limit 40) t"
            )
            await connection.execute(
                "select inboxd.send_batch('p', $1, $2, $3, $4)",
                self.members(),
                *[_told(say) for say in ("then", "otherwise", "finally")],
            )
            if ids:
                condition = self.choice.choice(["succeeded", "failed", "finished"])
                await connection.execute(
                    "select inboxd.send_after($1, $2, $3)",
                    self.choice.choice(ids),
                    _told(f"after {condition}"),
                    condition,
                )

    async def filled(self) -> None:
        """Open a batch, fill it concurrently, and close it meanwhile."""
        async with self.database.connect() as connection:
            batch = await connection.fetchval(
                "select new_batch_id from inboxd.open_batch('open', $1, $2, $3)",
                *[_told(say) for say in ("then", "otherwise", "finally")],
            )

        async def fill() -> None:
            async with self.database.connect() as connection, connection.transaction():
                await connection.execute(
                    "select inboxd.add_to_batch($1, $2)", batch, self.members()
                )
                # The time for which it holds its transaction open varies, and below that of the
                # close.
                await anyio.sleep(self.choice.uniform(0, 0.05))

        async def close() -> None:
            await anyio.sleep(self.choice.uniform(0, 0.05))
            async with self.database.connect() as connection, connection.transaction():
                await connection.execute("select inboxd.close_batch($1)", batch)
                await anyio.sleep(self.choice.uniform(0, 0.1))

        async with anyio.create_task_group() as group:
            for work in (fill, fill, fill, close):
                group.start_soon(self.tried, work)

    async def operator(self) -> None:
        """Take one action on a random row or batch."""
        async with daemon_session(self.database) as session:
            batch = await session.connection.fetchval(
                "select id from inboxd.batches order by id desc offset floor(random() * 8) limit 1"
            )
            dead = await session.connection.fetchval(
                "select id from inboxd.commands where status = 'failed' order by id desc offset floor(random() * 8) limit 1"
            )
            some = await session.connection.fetchval(
                "select id from inboxd.commands where status in ('pending', 'waiting', 'running') "
                "order by id desc offset floor(random() * 8) limit 1"
            )
            if batch is None:
                return
            within = operations.Selection(batch=batch)
            action = self.choice.choice(["replay", "replay", "many", "dismiss", "batch", "some"])
            if action == "replay" and dead:
                await operations.act(session, "commands", "replay", [dead], actor="storm")
            elif action == "many":
                await operations.act_on_all(session, "commands", "replay", within, TERMS)
            elif action == "dismiss" and dead and self.choice.random() < 0.3:
                await operations.act(session, "commands", "dismiss", [dead], actor="storm")
            elif action == "batch":
                await operations.cancel_batch(session, batch, actor="storm")
            elif action == "some" and some:
                await operations.act(session, "commands", "cancel", [some], actor="storm")

    async def tried(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` once; refusals are counted, any other error fails, a deadlock too."""
        name = work.__name__
        try:
            await work()
        except (InboxdError, asyncpg.PostgresError) as error:
            code = getattr(error, "sqlstate", None)
            name += f" {type(error).__name__} {code}"
            if code not in (None, "IB004", "IB005"):
                raise
        self.done[name] += 1

    async def keep(self, work: Callable[[], Awaitable[None]], pause: float) -> None:
        """Repeat `work`, with random pauses."""
        while not self.over:
            await self.tried(work)
            await anyio.sleep(self.choice.uniform(0, pause))


def _work(how: str) -> dict[str, Any]:
    return {"type": "batch.work", "queue": "default", "payload": {"how": how}}


def _told(say: str) -> str:
    return json.dumps({"type": "batch.told", "queue": "default", "payload": {"say": say}})


@pytest.mark.parametrize("seconds", [pytest.param(20, marks=pytest.mark.long)])
async def test_a_storm_breaks_no_promise_of_batches(
    ledger: Database, start_worker: StartWorker, hasty: Hasty, seconds: float, fresh_seed: int
) -> None:
    storm = Storm(ledger, fresh_seed)
    config = hasty(commands={"page_rows": 5, "concurrency": 4})
    workers: list[Worker] = [await start_worker(config) for _ in range(3)]
    async with anyio.create_task_group() as group:
        for work, pause in (
            (storm.handlers, 0.1),
            (storm.producer, 0.1),
            (storm.filled, 0.2),
            *[(storm.operator, 0.1)] * 4,
        ):
            group.start_soon(storm.keep, work, pause)
        ends = anyio.current_time() + seconds
        while anyio.current_time() < ends:
            # Not a wait: the moment of the death varies.
            await anyio.sleep(storm.choice.uniform(1, 3))
            workers.pop(0).kill()
            workers.append(await start_worker(config))
        storm.over = True
    await ledger.execute("insert into ledger (note) values ('mended')")
    await eventually(lambda: _healed(ledger), within=60)
    found = {name: (await ledger.fetch(wrong))[:5] for name, wrong in WRONG.items()}
    with safety():
        assert found == {name: [] for name in WRONG}, storm.done


async def _healed(database: Database) -> bool:
    """Replay dead letters until none is left; dismiss those whose batch was cancelled."""
    async with daemon_session(database) as session:
        for row in await session.connection.fetch(
            "select batch_id from inboxd.batches where closed_at is null"
        ):
            await session.connection.execute("select inboxd.close_batch($1)", row[0])
        await operations.act_on_all(session, "commands", "replay", operations.Selection(), TERMS)
        for row in await session.connection.fetch(
            "select id from inboxd.batches where status = 'failed' and ending = 'cancelled'"
        ):
            within = operations.Selection(batch=row[0])
            await operations.act_on_all(session, "commands", "dismiss", within, TERMS)
    rows = await database.fetch(
        "select from inboxd.commands union all select from inboxd.events union all "
        "select from inboxd.batch_progress limit 1"
    )
    return not rows


WRONG = {
    **WRONG_GROUPS,
    "ran twice": """
        select row_id, count(*) from ledger where row_id is not null group by 1 having count(*) > 1
    """,
    "effects without history": """
        select l.* from ledger l left join inboxd.commands_history h on h.id = l.row_id and h.status = 'succeeded' where l.row_id is not null and h.id is null
    """,
    "in history twice": """
        select id, count(*) from inboxd.commands_history group by 1 having count(*) > 1
    """,
}
