"""An operator during the storm: mends failures, replays rows, and makes schedules due.

Promises: the operator starts again after any fault; the run of a schedule that it promises is
recorded in the transaction that moves the schedule.
"""

import json
import random
from datetime import UTC, datetime
from uuid import UUID

import anyio
import asyncpg

from inboxd import operations
from inboxd.errors import InboxdError
from inboxd.store.connections import LOST
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from tests.chaos.fleet import SCHEDULES, catches_up, schedule
from tests.support import Database
from tests.support.rows import daemon_session

_PAUSES = (0.2, 1.0)
_AT_ONCE = 30
_TABLES: tuple[HotTable, ...] = ("events", "commands")
_TERMS = operations.Terms(actor="chaos")
_UNMENDED = "until mended"
_DEAD = """
select id, substring(errors -> -1 ->> 'error' from 'until mended ([0-9a-f-]+)')::uuid as token
from inboxd.{table}
where status = 'failed' and errors -> -1 ->> 'error' like '%until mended%'
order by random() limit $1
"""
# Moves a yearly schedule's time once: the newest year has begun before the run.
_MOVE = """
update inboxd.schedules set next_at = $2
where name = $1 and last_at is null and next_at > now()
"""
_FIRST_YEARS = (1990, 2015)


class Operator:
    """One person at the command line; `mended` counts the replayed rows."""

    def __init__(self, database: Database, seed: int, seconds: float) -> None:
        self._database = database
        self._chance = random.Random(f"{seed} operator")
        # The times of the moves, in seconds from the beginning, and their schedules.
        self._moves = sorted((self._chance.uniform(0, seconds), n) for n in range(SCHEDULES))
        self._stopping = False
        self.mended = 0

    def stop(self) -> None:
        self._stopping = True

    async def run(self) -> None:
        """Mend and move until `stop`."""
        began = anyio.current_time()
        while not self._stopping:
            try:
                async with daemon_session(self._database) as session:
                    while not self._stopping:
                        await self._move_schedules(session, anyio.current_time() - began)
                        await self._mend(session)
                        # A person's pace, not a wait.
                        await anyio.sleep(self._chance.uniform(*_PAUSES))
            except (*LOST, asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError):
                await anyio.sleep(_PAUSES[0])  # another fault came first

    async def _mend(self, session: Session) -> None:
        for table in _TABLES:
            if self._chance.random() < 0.1:
                # Including rows that are not mended: they fail again.
                unmended = operations.Selection(error=_UNMENDED)
                self.mended += await operations.act_on_all(
                    session, table, "replay", unmended, _TERMS
                )
                continue
            dead = await session.connection.fetch(_DEAD.format(table=table), _AT_ONCE)
            tokens: list[UUID] = [row["token"] for row in dead]
            await session.connection.execute(
                "insert into chaos_mended select unnest($1::uuid[]) on conflict do nothing", tokens
            )
            for row in dead:
                try:
                    await operations.act(session, table, "replay", [row["id"]], actor="chaos")
                except InboxdError:
                    continue  # replayed meanwhile: the answer was lost
                self.mended += 1

    async def _move_schedules(self, session: Session, seconds: float) -> None:
        while self._moves and self._moves[0][0] <= seconds:
            place = self._moves[0][1]
            first = self._chance.randint(*_FIRST_YEARS)
            if not await self._move(session, place, first):
                return  # no worker has declared it yet
            self._moves.pop(0)

    async def _move(self, session: Session, place: int, first: int) -> bool:
        """Whether it is moved, now or by an earlier call whose answer was lost."""
        name, this_year = schedule(place), datetime.now(UTC).year
        years = range(first if catches_up(place) else this_year, this_year + 1)
        async with session.transaction():
            tag = await session.connection.execute(_MOVE, name, datetime(first, 1, 1, tzinfo=UTC))
            if tag == "UPDATE 1":
                await session.connection.executemany(
                    "insert into chaos_produced (kind, script) values ('due', $1::text::jsonb)",
                    [(json.dumps({"story": f"{name}@{y}-01-01T00:00:00Z"}),) for y in years],
                )
                return True
        return bool(
            await session.connection.fetchval(
                "select count(*) from inboxd.schedules where name = $1", name
            )
        )
