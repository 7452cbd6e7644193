"""Leases of relays: which worker publishes what is in a bucket of a relay's topic.

Owns the table relay_leases. Promises that a bucket is leased by one living worker at a time, that
each lease has a higher fence than the one before it, and that one which was lost frees nothing and
settles nothing (promise 3). Known limit: each page updates its buckets' rows twice, in place; while
somebody holds an old snapshot, no version of them can go, and leasing walks over all (ADR 28).
*See:* `events/sources/sequential.py`, before it; `events/relays/page.py`.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from inboxd.errors import LeaseLost
from inboxd.model.arrivals import Bucket
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements

# The fence of each bucket that is leased.
Fences: TypeAlias = Mapping[Bucket, int]


async def lease(
    connection: Connection, sql: Statements, worker: UUID, buckets: Sequence[Bucket], most: int
) -> dict[Bucket, int]:
    """Lease up to `most` of these buckets; the fences of those that could be had.

    They are locked until the transaction ends; what is in them is read by a later statement.
    """
    rows = await connection.fetch(
        sql["lease_buckets"],
        worker,
        [topic for topic, _ in buckets],
        [bucket for _, bucket in buckets],
        most,
    )
    return {(row["topic"], row["bucket"]): row["fence"] for row in rows}


async def free(connection: Connection, sql: Statements, worker: UUID, fences: Fences) -> None:
    """End these leases, first of all in the transaction that settles. Raises LeaseLost."""
    if not fences:
        return
    status = await connection.execute(
        sql["free_buckets"],
        worker,
        [topic for topic, _ in fences],
        [bucket for _, bucket in fences],
        [*fences.values()],
    )
    if (lost := len(fences) - int(status.rpartition(" ")[2])) > 0:
        raise LeaseLost(f"{lost} of {len(fences)} buckets of a relay were leased by somebody else")
