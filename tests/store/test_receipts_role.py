"""The role inboxd_receiver: it writes receipts, and reads no sender's data."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from inboxd.store import receipts
from inboxd.store.session import Session
from tests.support import Database
from tests.support.receipts import receipt, received, received_ago
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio


@pytest.fixture
async def receiver(database: Database) -> AsyncIterator[Session]:
    """A session with the role's privileges."""
    async with daemon_session(database) as session:
        await session.connection.execute("SET ROLE inboxd_receiver")
        yield session


async def test_receiver_may_write_receipts(receiver: Session) -> None:
    page = [
        receipt(received(dedup_key="d")),
        receipt(received(payload={"n": 1}, dedup_key="d")),
        receipt(received(broken="Broken")),
        receipt(hold=True),
    ]
    first = await receipts.write(receiver, page)
    assert [each.outcome for each in first] == ["held"] * 4
    page = [receipt(*each.events, source="another") for each in page]
    first = await receipts.write(receiver, page)
    assert [each.outcome for each in first] == ["stored", "contradiction", "broken", "stored"]
    assert await receipts.write(receiver, page) == first


async def test_receiver_may_write_receipts_of_another_day(receiver: Session) -> None:
    stored = await receipts.write(receiver, [received_ago(5)])
    assert [each.outcome for each in stored] == ["stored"]
    await receipts.commit(receiver)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM inboxd.controls",
        "SELECT * FROM inboxd.schema_migrations, inboxd.schema_functions",
        (
            "INSERT INTO inboxd.receivers (id, name, host, pid, version)"
            " VALUES (gen_random_uuid(), 'r', 'h', 1, '1')"
        ),
        "UPDATE inboxd.receivers SET beat_at = now()",
        "DELETE FROM inboxd.receivers WHERE state = 'stopped'",
    ],
)
async def test_receiver_may_run_its_statements(receiver: Session, statement: str) -> None:
    await receiver.connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        *(
            f"SELECT * FROM inboxd.{table}"
            for table in (
                *("receipts", "kept_receipts", "held_receipts", "held_sources", "events"),
                *("commands", "events_history", "bodies", "dedup", "audit", "workers"),
            )
        ),
        "INSERT INTO inboxd.events (type) VALUES ('a.b')",
        "INSERT INTO inboxd.receipts (source) VALUES ('a')",
        "DELETE FROM inboxd.receipts",
        "DELETE FROM inboxd.controls",
        "INSERT INTO inboxd.controls (kind, name, actor) VALUES ('source', 'a', 'me')",
        "UPDATE inboxd.workers SET state = 'dead'",
        "SELECT * FROM inboxd.emit_event('a.b', '{}')",
        "SELECT * FROM inboxd.release_receipts('psp', 0, 1)",
        "SELECT inboxd.keep_receipts(now(), now())",
        "SELECT inboxd.make_partitions(1)",
        "SELECT inboxd.make_partition('receipts', current_date + 40)",
        "SELECT * FROM inboxd.write_events('{a.b}', '{}')",
    ],
)
async def test_receiver_may_not_run_other_statements(receiver: Session, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await receiver.connection.execute(statement)


@pytest.mark.parametrize("role", ["inboxd_producer", "public"])
async def test_other_roles_may_not_receive(database: Database, role: str) -> None:
    granted = await database.fetchval(
        "select has_function_privilege($1, oid, 'execute') from pg_proc where proname = 'receive'",
        role,
    )
    assert granted is False
