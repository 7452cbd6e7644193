"""Ends sessions that stopped half-way, so that their locked rows are free for other workers.

`idle_in_transaction_timeout` ends a session between two statements. But the driver prepares a
statement in one message and runs it in another, and a session that waits for the second message is
"active", forever if the peer's kernel still answers (tried with 15 and 18); so is one whose result
is not read. Known limits: another live worker must do this; sessions of another role are invisible;
a command's handler that does not read its result, and COPY, are left alone. Only the begin of a
statement is visible: a handler of events that raises its session's `statement_timeout` might be
ended while it reads, and so might a worker whose loop is blocked, if its `worker.stall_timeout` is
longer than the patience here.
"""

from inboxd.maintenance.context import MaintenanceContext
from inboxd.settings import Database
from inboxd.store import workers
from inboxd.store.connections import session_name
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def end_stalled_sessions(context: MaintenanceContext, database: Database) -> None:
    patience = database.idle_in_transaction_timeout
    # A statement may take long, and so may the reading of its result.
    to_read = max(patience, database.statement_timeout)
    async with borrow(context.pool) as session:
        ended = await workers.end_stalled(session, session_name(database, ""), patience, to_read)
    for row in ended:
        context.metrics.reaped.labels("session").inc()
        _log.warning(
            "a session that stopped half-way is ended, and its locks are released",
            pid=row["pid"],
            application=row["application"],
            seconds=round(row["waited"].total_seconds(), 1),
            statement=row["query"],
        )
