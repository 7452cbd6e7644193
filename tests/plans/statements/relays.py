"""Cases of relays: their leases of buckets."""

from contextlib import suppress

from inboxd.errors import LeaseLost
from inboxd.store import relays
from inboxd.store.connections import Connection
from tests.plans.filling import Known
from tests.plans.statements.case import SQL, Case, run


async def _lease_buckets(session: Connection, known: Known) -> None:
    buckets = [("lines", bucket) for bucket in range(64)]
    await relays.lease(session, SQL, known.worker, buckets, 32)


async def _free_buckets(session: Connection, known: Known) -> None:
    with suppress(LeaseLost):  # no bucket is leased
        await relays.free(session, SQL, known.worker, {("lines", n): 1 for n in range(64)})


_INDEXES = ("relay_leases_pkey", "workers_pkey")

RELAY: dict[str, tuple[Case, tuple[str, ...]]] = {
    "lease_buckets": (_lease_buckets, _INDEXES),
    "free_buckets": (_free_buckets, _INDEXES),
}
LOOKED: dict[str, tuple[Case, tuple[str, ...]]] = {
    "doctor_relays": (run("doctor_relays", 100), ()),
}
