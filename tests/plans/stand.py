"""Sessions to measure: with the settings of the daemon, operators, producers and handlers.

    async with sessions(database) as stand:
        await stand.plan(known)
        for name, session, case in stand.cases():
            await stand.undone(session, case(session, known))

`pooled_sessions` has the daemon's session behind a pooler.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from inboxd.store.connections import ERRAND_PLANS, OWN_PLANS
from inboxd.store.pools import lend, open_pool
from inboxd.store.session import Session, connect
from tests.plans.filling import Known
from tests.plans.statements import DAEMON, HANDLER, OPERATOR, PRODUCER, SQL, Case
from tests.support import Database
from tests.support.rows import settings_of

# Sessions with the default planner settings keep a plan from the sixth time on.
_TIMES = 7


@dataclass(frozen=True)
class Stand:
    """Sessions of each user on one database.

    preamble: the statement with which the daemon begins each transaction; behind a pooler, its
    settings.
    """

    daemon: Session
    operator: Session
    producer: Session
    handler: Session
    preamble: str = ""

    async def undone(self, session: Session, work: Awaitable[object]) -> None:
        """Run `work` in a transaction like the session's own, and roll it back."""
        await undone(session, work, self.preamble if session is self.daemon else "")

    def cases(self) -> Iterator[tuple[str, Session, Case]]:
        """The cases of all statements, with the sessions that run them."""
        for session, cases in (
            (self.daemon, DAEMON),
            (self.operator, OPERATOR),
            (self.producer, PRODUCER),
            (self.handler, HANDLER),
        ):
            for name, (case, _) in cases.items():
                yield name, session, case

    async def count(self) -> list[int]:
        """Let the server count the pages of these sessions at once, not within ten seconds.

        Returns the process ids of the sessions.
        """
        return [
            await session.connection.fetchval(
                "select pg_backend_pid() from pg_stat_force_next_flush()"
            )
            for session in (self.daemon, self.operator, self.producer, self.handler)
        ]

    async def plan(self, known: Known) -> None:
        """Plan every statement for the tables as they are now, so that sessions keep the plans.

        Operators' statements are left out: each command of theirs has a session of its own.
        """
        for _, session, case in self.cases():
            if session is not self.operator:
                for _ in range(_TIMES):
                    await self.undone(session, case(session, known))


@asynccontextmanager
async def sessions(database: Database) -> AsyncIterator[Stand]:
    """New sessions, for the `async with` block."""
    settings = settings_of(database)

    async def opened(name: str, plans: Mapping[str, str]) -> Session:
        return replace(await connect(settings, name, plans), sql=SQL)

    stand = Stand(
        await opened("daemon", OWN_PLANS),
        await opened("operator", ERRAND_PLANS),
        await opened("producer", {}),
        await opened("handler", {}),
    )
    try:
        yield stand
    finally:
        for session in (stand.daemon, stand.operator, stand.producer, stand.handler):
            session.connection.terminate()


@asynccontextmanager
async def pooled_sessions(database: Database) -> AsyncIterator[Stand]:
    """New sessions; those of the daemon as behind a pooler, where a session keeps nothing."""
    pooled = settings_of(database).model_copy(update={"transaction_pooler": True})
    async with AsyncExitStack() as stack:
        stand = await stack.enter_async_context(sessions(database))
        pool = await stack.enter_async_context(open_pool(pooled, "daemon", 1))
        daemon = await stack.enter_async_context(lend(pool))
        stand.daemon.connection.terminate()
        yield replace(stand, daemon=replace(daemon, sql=SQL), preamble=pool.preamble)


async def undone(session: Session, work: Awaitable[object], preamble: str = "") -> None:
    """Run `work` in a transaction, and roll it back."""
    transaction = session.transaction()
    await transaction.start()
    try:
        if preamble:
            await session.connection.execute(preamble)
        await work
    finally:
        await transaction.rollback()
