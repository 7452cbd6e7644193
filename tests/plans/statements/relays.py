"""Cases of relays: their leases of buckets."""

from contextlib import suppress

from inboxd.errors import LeaseLost
from inboxd.store import relays
from inboxd.store.session import Session
from tests.plans.filling import Known
from tests.plans.statements.case import Case, run


async def _lease_buckets(session: Session, known: Known) -> None:
    buckets = [("lines", bucket) for bucket in range(64)]
    await relays.lease(session, known.worker, buckets, 32)


async def _free_buckets(session: Session, known: Known) -> None:
    with suppress(LeaseLost):  # no bucket is leased
        await relays.free(session, known.worker, {("lines", n): 1 for n in range(64)})


_INDEXES = ("relay_leases_pkey", "workers_pkey")

RELAY: dict[str, tuple[Case, tuple[str, ...]]] = {
    "lease_buckets": (_lease_buckets, _INDEXES),
    "free_buckets": (_free_buckets, _INDEXES),
}
LOOKED: dict[str, tuple[Case, tuple[str, ...]]] = {
    "doctor_relays": (run("doctor_relays", 100), ()),
}
