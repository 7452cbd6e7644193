"""The sessions that are asked, as the daemon, operators, producers and handlers have theirs."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from inboxd.store.connections import ERRAND_PLANS, OWN_PLANS, Connection, connect
from inboxd.store.pools import lend, open_pool
from tests.plans.filling import Known
from tests.plans.statements import DAEMON, HANDLER, OPERATOR, PRODUCER, Case
from tests.support import Database
from tests.support.rows import settings_of

# From the sixth time on a plan is kept by sessions whose planner is left alone.
_TIMES = 7


@dataclass(frozen=True)
class Stand:
    """Sessions on one database.

    preamble: what the daemon begins each transaction with; behind a pooler, its settings.
    """

    daemon: Connection
    operator: Connection
    producer: Connection
    handler: Connection
    preamble: str = ""

    async def undone(self, session: Connection, work: Awaitable[object]) -> None:
        """Do it in a transaction as that session has them, and roll it back."""
        await undone(session, work, self.preamble if session is self.daemon else "")

    def cases(self) -> Iterator[tuple[str, Connection, Case]]:
        """Every statement, with the session that runs it."""
        for session, cases in (
            (self.daemon, DAEMON),
            (self.operator, OPERATOR),
            (self.producer, PRODUCER),
            (self.handler, HANDLER),
        ):
            for name, (case, _) in cases.items():
                yield name, session, case

    async def count(self) -> list[int]:
        """Let the server count what these did: a session waits up to ten seconds with that.

        Returns their process ids.
        """
        return [
            await session.fetchval("select pg_backend_pid() from pg_stat_force_next_flush()")
            for session in (self.daemon, self.operator, self.producer, self.handler)
        ]

    async def plan(self, known: Known) -> None:
        """Plan every statement as the tables are now, and keep the plans.

        Not so operators: each of their errands has a session of its own.
        """
        for _, session, case in self.cases():
            if session is not self.operator:
                for _ in range(_TIMES):
                    await self.undone(session, case(session, known))


@asynccontextmanager
async def sessions(database: Database) -> AsyncIterator[Stand]:
    """New sessions, for the `async with` block."""
    settings = settings_of(database)
    stand = Stand(
        await connect(settings, "daemon", plans=OWN_PLANS),
        await connect(settings, "operator", plans=ERRAND_PLANS),
        await connect(settings, "producer", plans={}),
        await connect(settings, "handler", plans={}),
    )
    try:
        yield stand
    finally:
        for session in (stand.daemon, stand.operator, stand.producer, stand.handler):
            session.terminate()


@asynccontextmanager
async def pooled_sessions(database: Database) -> AsyncIterator[Stand]:
    """New sessions, those of the daemon as it has them behind a pooler: nothing is kept in one."""
    pooled = settings_of(database).model_copy(update={"transaction_pooler": True})
    async with AsyncExitStack() as stack:
        stand = await stack.enter_async_context(sessions(database))
        pool = await stack.enter_async_context(open_pool(pooled, "daemon", 1))
        daemon = await stack.enter_async_context(lend(pool))
        stand.daemon.terminate()
        yield replace(stand, daemon=daemon, preamble=pool.preamble)


async def undone(connection: Connection, work: Awaitable[object], preamble: str = "") -> None:
    """Do it and roll it back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        if preamble:
            await connection.execute(preamble)
        await work
    finally:
        await transaction.rollback()
