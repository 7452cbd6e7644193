"""Leases of relays' buckets: one living worker has each, and a lost lease settles nothing."""

from uuid import UUID

import pytest

from inboxd.errors import LeaseLost
from inboxd.model.arrivals import Bucket
from inboxd.store import relays, workers
from inboxd.store.session import Session
from tests.support import Database
from tests.support.rows import daemon_pool, daemon_session, join

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

BUCKETS: list[Bucket] = [("out", bucket) for bucket in range(8)]


async def lease(session: Session, worker: UUID, most: int = 8) -> dict[Bucket, int]:
    """Lease buckets in a transaction."""
    async with session.transaction():
        return await relays.lease(session, worker, BUCKETS, most)


async def test_a_bucket_is_leased_by_one_worker(database: Database) -> None:
    async with daemon_session(database) as session:
        one, other = await join(session), await join(session)
        first = await lease(session, one, most=5)
        second = await lease(session, other)
        assert (len(first), len(second)) == (5, 3)
        assert set(first) | set(second) == set(BUCKETS)
        assert await lease(session, other, most=5) == dict.fromkeys(second, 2)
        await relays.free(session, one, first)
        assert set(await lease(session, other)) == set(BUCKETS)


async def test_locked_buckets_are_left_alone(database: Database) -> None:
    async with daemon_session(database) as session, daemon_session(database) as second:
        one, other = await join(session), await join(session)
        async with session.transaction():
            had = await relays.lease(session, one, BUCKETS, 5)
            assert set(await lease(second, other)) == set(BUCKETS) - set(had)


async def test_buckets_of_a_dead_worker_are_leased_again(database: Database) -> None:
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        dead, other = await join(session), await join(session)
        lost = await lease(session, dead)
        assert await workers.declare_dead(pool, dead, 0, 3) == []
        assert await lease(session, dead) == {}
        with pytest.raises(LeaseLost):  # also while no other worker has leased them
            await relays.free(session, dead, lost)
        assert await lease(session, other) == dict.fromkeys(BUCKETS, 2)
        with pytest.raises(LeaseLost):
            await relays.free(session, dead, lost)


async def test_lease_renewed_by_its_worker_replaces_the_older_one(database: Database) -> None:
    """A commit whose answer was lost may still be under way."""
    async with daemon_session(database) as session:
        worker = await join(session)
        lost = await lease(session, worker)
        had = await lease(session, worker)
        with pytest.raises(LeaseLost):
            await relays.free(session, worker, lost)
        await relays.free(session, worker, had)


async def test_worker_in_the_middle_of_a_lease_is_not_declared_dead(database: Database) -> None:
    async with daemon_pool(database) as pool, daemon_session(database) as session:
        worker = await join(session)
        async with session.transaction():
            await relays.lease(session, worker, BUCKETS, 8)
            assert await workers.declare_dead(pool, worker, 0, 3) is None
