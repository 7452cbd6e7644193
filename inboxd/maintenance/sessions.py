"""Ends sessions that stopped half-way, so that the rows they have locked are free for others.

Owns what PostgreSQL's own limits leave open. A worker that is stopped, or vanishes behind a network
that swallows all, leaves a session with its page's rows locked. `idle_in_transaction_timeout` ends
it where it stands between two statements; but the driver prepares a statement in one message and
runs it in another, and a session that waits for the other is «active», for ever if the peer's
kernel goes on answering (15 and 18 tried). So is one whose answer nobody reads. Promises that
neither keeps rows for much longer than that setting says. Known limits: it takes another worker
that lives; sessions of another role cannot be seen; the answer that a command's handler does not
read, and COPY, are left alone: to wait for the client is usual there. How long an answer has not
moved cannot be seen, only when its statement began: a handler of events that raises its session's
`statement_timeout` may be ended while it reads for longer than that setting. So may one of a worker
whose `worker.stall_timeout` is longer than the patience here, while its loop stands still.
"""

from inboxd.maintenance.context import MaintenanceContext
from inboxd.settings import Database
from inboxd.store import workers
from inboxd.store.connections import session_name
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def end_stalled_sessions(context: MaintenanceContext, database: Database) -> None:
    """End the workers' sessions that have stood still for longer than `database` says."""
    patience = database.idle_in_transaction_timeout
    # A statement may take its time, and its answer with it.
    to_read = max(patience, database.statement_timeout)
    async with borrow(context.pool) as connection:
        ended = await workers.end_stalled(
            connection, context.sql, session_name(database, ""), patience, to_read
        )
    for row in ended:
        context.metrics.reaped.labels("session").inc()
        _log.warning(
            "a session that stopped half-way is ended; what it locked is free",
            pid=row["pid"],
            application=row["application"],
            seconds=round(row["waited"].total_seconds(), 1),
            statement=row["query"],
        )
