"""Samples for tests: taken as the leader takes them, but at the moment of the test's choice."""

from datetime import timedelta

from inboxd.store import samples
from inboxd.store.connections import Connection
from inboxd.store.samples import CountedTo, Counts, Sample
from tests.support.databases import Database
from tests.support.rows import SQL

LIMIT = timedelta(seconds=10)


async def counted(connection: Connection, to: CountedTo = samples.FAR) -> Counts:
    """What is counted now."""
    async with connection.transaction():
        return (await samples.count(connection, SQL, {}, to, LIMIT)).counts


async def take(connection: Connection, newer_by: float = 0.0) -> tuple[Sample, bool]:
    """Take one; and whether it was written."""
    async with connection.transaction():
        sample = await samples.count(connection, SQL, {}, samples.FAR, LIMIT)
        newer = timedelta(seconds=newer_by)
        return sample, await samples.write(connection, SQL, sample, newer)


async def is_sampled(database: Database) -> bool:
    """Whether samples are taken, by the database's clock, and none is ahead of it."""
    return bool(
        await database.fetchval(
            "select exists (select from inboxd.newest_sample n where clock_timestamp() - n.at"
            " between interval '0' and interval '10 s') and not exists (select"
            " from inboxd.samples s where s.at > clock_timestamp())"
        )
    )
