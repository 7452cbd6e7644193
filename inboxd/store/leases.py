"""The leases table: which worker runs what only one worker may run.

Owns the statements of leadership. Promises that of several workers that try to take a free lease
one succeeds, and that no worker takes one from a running worker; with `from_older` it may take one
from a running worker of older code, which lacks newer tasks. Known limit: a worker counts as
running until the reaper decides otherwise.
"""

from uuid import UUID

from inboxd.store.session import Session


async def make(session: Session, name: str) -> None:
    """Create the lease if it does not exist."""
    await session.execute("make_lease", name)


async def hold(session: Session, name: str, worker: UUID, *, from_older: bool = False) -> bool:
    """Whether `worker` holds the lease, which it takes if it is free.

    from_older: also from a worker of older code, which then finds that it has lost the lease.
    """
    asks = worker if from_older else None
    lease = await session.fetchrow("read_lease", name, asks)
    if lease is not None and not lease["held"]:
        if await session.fetchval("take_lease", name, lease["term"], worker) is not None:
            return True
        # Another task took it first, perhaps one of this worker.
        lease = await session.fetchrow("read_lease", name, asks)
    return lease is not None and bool(lease["held"] and lease["holder"] == worker)


async def free(session: Session, name: str, worker: UUID) -> None:
    """Release the lease if `worker` holds it."""
    await session.execute("free_lease", name, worker)
