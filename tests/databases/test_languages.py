"""Servers with messages in other languages: decisions are the same as in English."""

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import asyncpg
import pytest

from inboxd.api.drafts import EventDraft
from inboxd.embedded import Server
from inboxd.errors import DedupKeyHeld
from inboxd.model.lineage import Lineage, uuid7
from inboxd.store import emitted
from inboxd.store.connections import explain, is_passing, is_refusal
from inboxd.store.settlements import Parent
from tests.support import Database, StartWorker, create, create_migrated, drop, eventually
from tests.support.languages import server_speaking
from tests.support.receipts import receipt, receive, received_ago
from tests.support.rows import create_ledger, daemon_session, effects, emit
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

# German messages have the quoted names in the English order; Japanese ones in the reverse order.
LOCALES = ("de_DE", "ja_JP")


@pytest.fixture(scope="module", params=LOCALES)
def foreign(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server for the tests of this module."""
    with server_speaking(request.param) as server:
        yield server


@pytest.fixture(scope="module")
def foreign_template(foreign: Server) -> Database:
    """A migrated database on that server, which ends with it."""
    return create_migrated(foreign)


@pytest.fixture
async def database(foreign: Server, foreign_template: Database) -> AsyncIterator[Database]:
    """A migrated database of the test's own."""
    fresh = create(foreign, foreign_template.name)
    yield fresh
    await fresh.end_sessions()
    drop(foreign, fresh)


async def _without_today(database: Database, *parents: str) -> None:
    """Drop today's partitions, and let no worker make them any more."""
    await database.execute(
        "alter function inboxd.make_partitions(integer) rename to make_partitions_no_more;"
        "create function inboxd.make_partitions(integer) returns integer language plpgsql"
        " as $$ begin raise insufficient_privilege; end $$"
    )
    for parent in parents:
        part = await database.fetchval("select to_char(now() at time zone 'UTC', '_YYYYMMDD')")
        await database.execute(f"drop table inboxd.{parent}{part}")


async def test_server_speaks_another_language(database: Database) -> None:
    with pytest.raises(asyncpg.UndefinedTableError) as refused:
        await database.fetch("select from nowhere")
    assert "does not exist" not in str(refused.value)


async def test_missing_partition_is_not_the_fault_of_the_row(database: Database) -> None:
    """A failed CHECK has the same SQLSTATE, and is the row's fault."""
    insert = (
        "insert into inboxd.receipts (receipt_id, received_at, source, outcome, event_ids,"
        " body_bytes) values (gen_random_uuid(), {}, 'psp', '{}', '{{}}', 0)"
    )
    with pytest.raises(asyncpg.CheckViolationError) as missing:
        await database.execute(insert.format("'2001-02-03'", "stored"))
    assert is_passing(missing.value)
    assert not is_refusal(missing.value)
    assert "run: inboxd history make" in str(explain(missing.value))
    with pytest.raises(asyncpg.CheckViolationError) as refused:
        await database.execute(insert.format("now()", "nonsense"))
    assert is_refusal(refused.value)


async def test_runs_that_end_without_a_partition_wait_for_one(
    database: Database, start_worker: StartWorker
) -> None:
    """With one attempt, each would otherwise become a dead letter."""
    await create_ledger(database)
    worker = await start_worker({"maintenance": {"interval": "300ms"}})
    await database.execute(
        "insert into inboxd.commands (type, payload, max_attempts)"
        """ select 'test.ledger', '{"wait": 1.5}', 1 from generate_series(1, 2)"""
    )
    await emit(database, 2, wait=0.7)

    async def under_way() -> bool:
        running = "select count(*) from inboxd.commands where status = 'running'"
        return bool(await database.fetchval(running) == 2)

    await eventually(under_way)
    await _without_today(database, "commands_history", "events_history")

    async def is_held() -> bool:
        return bool((await worker.get("/readyz"))[0] == 503)

    await eventually(is_held)
    await worker.logged("CheckViolationError")
    left = "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"
    assert await database.fetchval(left) == 4
    await database.execute("select inboxd.make_partitions_no_more(14)")

    async def is_done() -> bool:
        return bool(await database.fetchval(left) == 0)

    await eventually(is_done)
    with safety():
        for kind in ("command", "event"):
            assert set((await effects(database, kind)).values()) == {1}
            ended = f"select distinct status, attempts from inboxd.{kind}s_history"
            assert [tuple(row) for row in await database.fetch(ended)] == [("succeeded", 1)]


async def test_a_receipt_of_another_day_gets_its_partition(database: Database) -> None:
    stored = await receive(database, received_ago(5), receipt())
    with safety():
        assert [each.outcome for each in stored] == ["stored"] * 2
        assert await database.fetchval("select count(*) from inboxd.receipts") == 2


async def test_dedup_key_held_by_another_transaction_is_recognized(database: Database) -> None:
    """The server tells only in words what it waited for: the table and the place of the row."""
    key = str(uuid4())
    draft = EventDraft(uuid7(), "a.b", '{"n": 1}', dedup_key=key)
    parent = Parent("event", 7, Lineage("story", uuid4(), "00-1"))
    async with database.connect() as producer, daemon_session(database) as session:
        await producer.execute("begin")
        await producer.execute(f"select inboxd.emit_event('a.b', '{{}}', dedup_key => '{key}')")
        await session.connection.execute("set lock_timeout = '300ms'")
        with pytest.raises(DedupKeyHeld):
            async with session.transaction():
                await emitted.write(session, [(draft, parent)])
