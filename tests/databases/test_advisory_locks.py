"""Advisory locks with inboxd's names: the doctor names sessions outside inboxd that hold them."""

from collections.abc import Sequence

import anyio
import psycopg
import pytest

from inboxd.store.connections import Row
from tests.cli.conftest import Cli
from tests.cli.troubles import Report
from tests.databases.conftest import Login, name_of
from tests.support import Database, eventually
from tests.support.rows import SQL, daemon_session

_TOPIC = "insert into inboxd.topics (name, mode, source) values ('hers', 'sequential', 'test')"
_BUCKET = "select pg_advisory_lock(hashtext('inboxd/hers'), inboxd.bucket_of('hers', 'k'))"


async def _found(database: Database) -> Sequence[Row]:
    async with daemon_session(database) as session:
        return await session.fetch("doctor_advisory", 10)


def test_stranger_that_stops_claims_is_named_until_it_is_ended(
    database: Database, login: Login, cli: Cli
) -> None:
    anyio.run(database.execute, _TOPIC)
    number = anyio.run(database.fetchval, "select inboxd.bucket_of('hers', 'k')")
    assert Report(cli).of("advisory locks") == []
    mallory = login()
    with psycopg.connect(mallory, autocommit=True) as session:
        session.execute(f"select pg_advisory_lock(hashtext('inboxd/hers'), {number})".encode())
        taken = anyio.run(_taken, database, number)
        assert taken == [], "claims skip the bucket"
        pid = session.info.backend_pid
        told = Report(cli).one("advisory locks", "critical", f"pid {pid} ", name_of(mallory))
        assert "idle for " in told["found"]
        assert "REVOKE CONNECT ON DATABASE" in told["remedy"]
        statement = told["remedy"].partition("end it: ")[2].partition(";")[0]
        assert anyio.run(database.fetchval, statement) is True
    anyio.run(eventually, lambda: _none_is_found(database))
    assert Report(cli).of("advisory locks") == []
    assert anyio.run(_taken, database, number) == [1]


async def _taken(database: Database, bucket: int) -> list[int]:
    """Return the positions of the buckets that a claim would get."""
    async with daemon_session(database) as session, session.transaction():
        rows = await session.fetch("try_buckets", ["hers"], [bucket], 1)
        return [row["lane"] for row in rows]


async def _none_is_found(database: Database) -> bool:
    return not await _found(database)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "lock",
    [
        "pg_advisory_lock(hashtext('inboxd/hers'), 3)",
        "pg_advisory_lock_shared(hashtext('inboxd/hers'), 3)",
        "pg_advisory_lock(hashtext('inboxd.slots.hers'), 1)",
        "pg_advisory_lock(hashtext('inboxd.line'), 3)",
        "pg_advisory_lock(hashtext('inboxd/actions'), 0)",
        "pg_advisory_lock(hashtext('inboxd.partitions'), 0)",
        "pg_advisory_lock(hashtext('inboxd.reserve'), 0)",
        "pg_advisory_lock(hashtext('inboxd.releasing'), 3)",
        "pg_advisory_lock(hashtext('inboxd.intake'), 3)",
        "pg_advisory_lock(hashtext('inboxd.unique'), 3)",
        "pg_advisory_lock_shared(hashtext('inboxd.held'), 3)",
        "pg_advisory_lock(hashtext('inboxd.order'), 3)",
        "pg_advisory_lock(hashtext('inboxd'), 3)",
    ],
)
async def test_each_name_of_inboxd_counts(database: Database, login: Login, lock: str) -> None:
    await database.execute(_TOPIC)
    stranger = Database(database.name, login())
    async with stranger.connect() as session:
        await session.execute(f"select {lock}")
        (row,) = await _found(database)
        assert (row["role"], row["locks"], row["may_hold"]) == (name_of(stranger.dsn), 1, False)


@pytest.mark.anyio
async def test_harmless_locks_are_not_named(database: Database, login: Login) -> None:
    stranger = Database(database.name, login())
    async with stranger.connect() as session:
        await session.execute(
            "select pg_advisory_lock_shared(hashtext('inboxd.order'), 3),"
            " pg_advisory_lock(hashtext('a name of its own'), 3), pg_advisory_lock(7)"
        )
        assert await _found(database) == []


@pytest.mark.anyio
async def test_session_with_rights_is_named_once_it_keeps_a_lock_outside_of_a_transaction(
    database: Database, login: Login
) -> None:
    await database.execute(_TOPIC)
    worker = Database(database.name, login("inboxd_worker"))
    async with worker.connect() as session:
        await session.execute(_BUCKET)

        async def is_found() -> bool:
            return [row["may_hold"] for row in await _found(database)] == [True]

        await eventually(is_found)


@pytest.mark.anyio
async def test_sessions_of_workers_and_producers_are_not_named(
    database: Database, login: Login
) -> None:
    """The worker's login has its rights by SET ROLE alone."""
    await database.execute(_TOPIC)
    producer, worker = login("inboxd_producer"), login("inboxd_worker", "NOINHERIT")
    as_producer, as_worker = (Database(database.name, dsn) for dsn in (producer, worker))
    async with (
        as_producer.connect() as writes,
        as_worker.connect() as claims,
        writes.transaction(),
        claims.transaction(),
    ):
        await writes.execute(
            "select inboxd.emit_event('a.b', topic => 'hers', ordering_key => 'k');"
            "select inboxd.send_command('a.b', unique_key => 'k')"
        )
        await claims.execute("set local role inboxd_worker")
        await claims.execute(_BUCKET.replace("pg_advisory_lock", "pg_advisory_xact_lock"))
        assert await _found(database) == []


@pytest.mark.anyio
async def test_migrators_lock_is_not_named(database: Database) -> None:
    """The migrator is idle for longer than the session that is named."""
    await database.execute(_TOPIC)
    async with database.connect() as migrator, database.connect() as other:
        await migrator.execute(SQL["lock_migrations"])
        await other.execute(_BUCKET)

        async def is_found() -> bool:
            return [row["pid"] for row in await _found(database)] == [other.get_server_pid()]

        await eventually(is_found)
