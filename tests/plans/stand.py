"""The sessions that are asked, as the daemon, operators, producers and handlers have theirs."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from inboxd.store.connections import ERRAND_PLANS, OWN_PLANS, Connection, connect
from tests.plans.filling import Known
from tests.plans.statements import DAEMON, HANDLER, OPERATOR, PRODUCER, Case
from tests.support import Database
from tests.support.rows import settings_of

# From the sixth time on a plan is kept by sessions whose planner is left alone.
_TIMES = 7


@dataclass(frozen=True)
class Stand:
    """Sessions on one database."""

    daemon: Connection
    operator: Connection
    producer: Connection
    handler: Connection

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
                    await undone(session, case(session, known))


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


async def undone(connection: Connection, work: Awaitable[object]) -> None:
    """Do it and roll it back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await work
    finally:
        await transaction.rollback()
