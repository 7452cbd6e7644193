"""Workers of a random history: they claim rows, fail, settle them, and are killed.

    hands = InHand(database, "commands")
    await hands.claimed(3, "a.a")
    await hands.worker_killed()

Owns which worker has which rows. A claimed command is `running`; a claimed event stays pending, and
its worker's heartbeat has the number.
"""

from uuid import UUID

from inboxd.model.lane import Lane
from inboxd.store import commands, events, workers
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue, Settlement
from inboxd.store.wakeups import HotTable
from tests.support import Database
from tests.support.rows import daemon_pool, daemon_session, emit, join, send

_ERROR = '{"error": "TimeoutError: no answer"}'
# Number of deaths alone that make a command a dead letter.
_CRASH_LIMIT = 3


class InHand:
    """Rows of one table that workers have claimed."""

    def __init__(self, database: Database, table: HotTable) -> None:
        self._database, self._table = database, table
        # Each worker's rows: id and fence.
        self._held: dict[UUID, list[tuple[int, int]]] = {}

    @property
    def in_hand(self) -> int:
        """The number of rows that living workers have claimed."""
        return sum(map(len, self._held.values()))

    async def let_go(self) -> None:
        """Delete all workers; their rows are deleted already."""
        self._held.clear()
        await self._database.execute("delete from inboxd.workers")

    async def claimed(self, rows: int, type_: str) -> None:
        """Let a new worker claim some of the rows that arrive."""
        write = emit if self._table == "events" else send
        ids = await write(self._database, rows, type_)
        async with daemon_session(self._database) as session:
            worker = await join(session)
            if self._table == "commands":
                lane, room = Lane(("default", type_, 0)), {"default": rows}
                # Older rows of the lane come first.
                taken = await commands.claim(session, worker, room, [lane], rows)
                assert len(taken) == rows
                self._held[worker] = [(row["id"], row["fence"]) for row in taken]
            else:
                await workers.beat(session, worker, rows, "running", events=rows)
                self._held[worker] = [(id_, 0) for id_ in ids]

    async def retried(self, status: str) -> None:
        """Let the rows of a worker fail: each is pending again, or a dead letter."""
        worker, held = self._next()
        if worker is None:
            return
        failed = [
            Requeue(id_, status, 1, delay=0.0, error=_ERROR, fence=fence) for id_, fence in held
        ]
        async with daemon_session(self._database) as session:
            if self._table == "commands":
                ids = await commands.requeue(session, worker, failed)
                assert ids == {id_ for id_, _ in held}
            else:
                await events.requeue(session, failed)
            await self._leave(session, worker)

    async def settled(self) -> None:
        """Let the rows of a worker succeed."""
        worker, held = self._next()
        if worker is None:
            return
        async with daemon_session(self._database) as session:
            if self._table == "commands":
                done = [Settlement(id_, fence, "succeeded", 0.1, None) for id_, fence in held]
                assert await commands.settle(session, worker, done) == {id_ for id_, _ in held}
            else:
                await events.settle(session, [(id_, 0.1) for id_, _ in held], worker)
            await self._leave(session, worker)

    async def worker_killed(self) -> None:
        """Kill a worker that has rows: another one declares it dead."""
        worker, held = self._next()
        if worker is None:
            return
        heartbeat = await self._database.fetchval(
            "select heartbeat from inboxd.workers where id = $1", worker
        )
        async with daemon_pool(self._database, 1) as pool:
            returned = await workers.declare_dead(pool, worker, heartbeat, _CRASH_LIMIT)
        assert returned is not None
        assert len(returned) == (len(held) if self._table == "commands" else 0)

    def _next(self) -> tuple[UUID | None, list[tuple[int, int]]]:
        """The worker that claimed first, which has nothing in hand from now on."""
        worker = next(iter(self._held), None)
        return worker, [] if worker is None else self._held.pop(worker)

    async def _leave(self, session: Session, worker: UUID) -> None:
        await workers.beat(session, worker, 0, "running", events=0)
        await workers.leave(session, worker)
