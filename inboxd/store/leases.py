"""The leases table: which worker does what one does for all.

Owns the statements of leadership. Promises that of several who try to take a free lease one
succeeds, and that nobody takes one from a worker that runs, but where the caller says so from one
of older code, which knows less of what is to be done. Known limit: a worker is taken for one that
runs until the reaper has judged otherwise.
"""

from uuid import UUID

from inboxd.store.connections import Connection
from inboxd.store.statements import Statements


async def make(connection: Connection, sql: Statements, name: str) -> None:
    """Let there be a lease of this name."""
    await connection.execute(sql["make_lease"], name)


async def hold(
    connection: Connection,
    sql: Statements,
    name: str,
    worker: UUID,
    *,
    from_older: bool = False,
) -> bool:
    """Whether `worker` holds the lease, which it takes if it is free.

    from_older: also from a worker of older code; that one finds that it holds it no more.
    """
    asks = worker if from_older else None
    lease = await connection.fetchrow(sql["read_lease"], name, asks)
    if lease is not None and not lease["held"]:
        if await connection.fetchval(sql["take_lease"], name, lease["term"], worker) is not None:
            return True
        # Somebody was quicker: it may have been another task of this worker.
        lease = await connection.fetchrow(sql["read_lease"], name, asks)
    return lease is not None and bool(lease["held"] and lease["holder"] == worker)


async def free(connection: Connection, sql: Statements, name: str, worker: UUID) -> None:
    """Give up the lease, if `worker` holds it."""
    await connection.execute(sql["free_lease"], name, worker)
