"""Samples as the leader takes them, at a moment of the test's choice.

In a test: `counts = await counted(connection)`.
"""

from datetime import timedelta

from inboxd.store import samples
from inboxd.store.samples import CountedTo, Counts, Sample
from inboxd.store.session import Session
from tests.support.databases import Database

LIMIT = timedelta(seconds=10)


async def counted(session: Session, to: CountedTo = samples.FAR) -> Counts:
    """The counts of this moment."""
    async with session.transaction():
        return (await samples.count(session, {}, to, LIMIT)).counts


async def take(session: Session, newer_by: float = 0.0) -> tuple[Sample, bool]:
    """Take a sample; also return whether it was written."""
    async with session.transaction():
        sample = await samples.count(session, {}, samples.FAR, LIMIT)
        newer = timedelta(seconds=newer_by)
        return sample, await samples.write(session, sample, newer)


async def is_sampled(database: Database) -> bool:
    """Whether the database has a sample of the last 10 s of its clock, and none of the future."""
    return bool(
        await database.fetchval(
            "select exists (select from inboxd.newest_sample n where clock_timestamp() - n.at"
            " between interval '0' and interval '10 s') and not exists (select"
            " from inboxd.samples s where s.at > clock_timestamp())"
        )
    )
