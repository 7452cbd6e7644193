"""Leases of relays: which worker publishes the events of a bucket of a relay's topic.

Promises that one living worker at a time leases a bucket, that each lease has a higher fence, and
that a lost lease can neither free nor settle anything (promise 3). Known limit: while an old
snapshot is held, the dead versions of leases stay, and leasing walks over all (ADR 28).
*See:* `events/sources/sequential.py`, before it; `events/relays/page.py`.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from inboxd.errors import LeaseLost
from inboxd.model.arrivals import Bucket
from inboxd.store.session import Session

# The fence of each leased bucket.
Fences: TypeAlias = Mapping[Bucket, int]


async def lease(
    session: Session, worker: UUID, buckets: Sequence[Bucket], most: int
) -> dict[Bucket, int]:
    """Returns the fences, and locks their buckets; a later statement must read their events."""
    rows = await session.fetch(
        "lease_buckets",
        worker,
        [topic for topic, _ in buckets],
        [bucket for _, bucket in buckets],
        most,
    )
    return {(row["topic"], row["bucket"]): row["fence"] for row in rows}


async def free(session: Session, worker: UUID, fences: Fences) -> None:
    """End these leases; must be the settling transaction's first statement. Raises LeaseLost."""
    if not fences:
        return
    status = await session.execute(
        "free_buckets",
        worker,
        [topic for topic, _ in fences],
        [bucket for _, bucket in fences],
        [*fences.values()],
    )
    if (lost := len(fences) - int(status.rpartition(" ")[2])) > 0:
        raise LeaseLost(f"another worker leased {lost} of {len(fences)} buckets of a relay")
