"""The leases table: which worker runs what only one worker may run.

Promises that a worker takes a lease only from one that the reaper has declared dead, or with
`from_older` from older code, which lacks newer tasks.
"""

from uuid import UUID

from inboxd.store.session import Session


async def make(session: Session, name: str) -> None:
    await session.execute("make_lease", name)


async def hold(session: Session, name: str, worker: UUID, *, from_older: bool = False) -> bool:
    """Takes the lease if it is free; from_older: also from a worker of older code."""
    asks = worker if from_older else None
    lease = await session.fetchrow("read_lease", name, asks)
    if lease is not None and not lease["held"]:
        if await session.fetchval("take_lease", name, lease["term"], worker) is not None:
            return True
        # Another task took it first, perhaps one of this worker.
        lease = await session.fetchrow("read_lease", name, asks)
    return lease is not None and bool(lease["held"] and lease["holder"] == worker)


async def free(session: Session, name: str, worker: UUID) -> None:
    await session.execute("free_lease", name, worker)
