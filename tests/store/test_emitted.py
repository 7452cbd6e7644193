"""What handlers emitted, as it is written: by few statements, and with what emitted it."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import asyncpg
import pytest

from inboxd.api.drafts import EventDraft, WebhookDraft
from inboxd.errors import DedupKeyHeld
from inboxd.model.lineage import Lineage, uuid7
from inboxd.store import emitted
from inboxd.store.settlements import Parent
from tests.support import Database
from tests.support.endpoints import add, deliveries
from tests.support.rows import SQL, daemon_session

pytestmark = pytest.mark.anyio

CAUSE = uuid4()
PARENT = Parent("event", 7, Lineage("story", CAUSE, "00-1"))
LATER = datetime(2030, 1, 1, tzinfo=UTC)


async def write(
    database: Database, *drafts: EventDraft | WebhookDraft, parent: Parent = PARENT
) -> list[asyncpg.Record]:
    """Write them, as a page does; all events there are then."""
    async with daemon_session(database) as connection, connection.transaction():
        await emitted.write(connection, SQL, [(draft, parent) for draft in drafts])
    return await database.fetch("select * from inboxd.events order by id")


async def test_every_column_is_what_the_handler_said(database: Database) -> None:
    full = EventDraft(
        uuid7(),
        "a.b",
        '{"n": 1}',
        3,
        "there",
        "me",
        "acme",
        "order",
        "5",
        '{"h": 1}',
        LATER,
        LATER,
        "sequential",
        "k",
        "d",
    )
    least = EventDraft(uuid7(), "a.b", "{}")
    rows = {row["event_id"]: row for row in await write(database, full, least)}
    row = rows[full.event_id]
    for column in ("type", "schema_version", "topic", "source", "tenant", "entity_type"):
        assert row[column] == getattr(full, column)
    for column in ("entity_id", "headers", "occurred_at", "run_at", "mode", "ordering_key"):
        assert row[column] == getattr(full, column)
    assert row["dedup_key"] == "d"
    assert (rows[least.event_id]["topic"], rows[least.event_id]["mode"]) == ("default", "single")
    for row in rows.values():
        assert (row["origin_kind"], row["origin_id"]) == ("event", 7)
        assert (row["correlation_id"], row["causation_id"]) == ("story", CAUSE)
        assert row["traceparent"] == "00-1"


async def test_a_delay_counts_from_when_it_is_written(database: Database) -> None:
    """Beside others that have a time, or neither."""
    late = EventDraft(uuid7(), "a.b", "{}", delay=90.5)
    for some in ((late,), (EventDraft(uuid7(), "a.b", "{}", run_at=LATER), late)):
        await database.execute("delete from inboxd.events")
        rows = {row["event_id"]: row for row in await write(database, *some)}
        row = rows[late.event_id]
        assert row["run_at"] - row["occurred_at"] == timedelta(seconds=90.5)
        assert {rows[draft.event_id]["run_at"] for draft in some[:-1]} <= {LATER}


async def test_it_goes_to_each_topic_that_is_subscribed(database: Database) -> None:
    await database.execute(
        "insert into inboxd.subscriptions (type, topic) values ('a.b', 'one'), ('a.b', 'two')"
    )
    rows = await write(database, EventDraft(uuid7(), "a.b", "{}"))
    assert [(row["topic"], row["origin_id"]) for row in rows] == [("one", 7), ("two", 7)]
    assert len({row["event_id"] for row in rows}) == 1


async def test_more_than_a_statement_takes(database: Database) -> None:
    drafts = [
        EventDraft(UUID(int=n), "a.b", "{}", topic="t", mode="sequential") for n in range(7_000)
    ]
    rows = await write(database, *drafts)
    assert [row["event_id"] for row in rows] == [draft.event_id for draft in drafts]


async def test_what_it_inherits_was_accepted_once(database: Database) -> None:
    """A row from before the bounds can emit; what the handler says itself is bounded."""
    old = Parent("command", 7, Lineage("c" * 300, CAUSE, "t" * 300))
    (row,) = await write(database, EventDraft(uuid7(), "a.b", "{}", tenant="x" * 300), parent=old)
    assert len(row["correlation_id"]) == len(row["traceparent"]) == len(row["tenant"]) == 300
    with pytest.raises(asyncpg.CheckViolationError, match="entity_id has 300 bytes"):
        await write(database, EventDraft(uuid7(), "a.b", "{}", entity_id="x" * 300), parent=old)


async def test_a_producer_cannot_say_what_emitted_its_event(database: Database) -> None:
    async with daemon_session(database) as connection, connection.transaction():
        await connection.execute("set local role inboxd_producer")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(
                "select inboxd.write_events(array['a.b'], array['{}']::jsonb[],"
                " origin_kinds => array['event'], origin_ids => array[1])"
            )


async def test_what_is_emitted_late_in_a_transaction_is_not_dated_by_its_beginning(
    database: Database,
) -> None:
    """A command may hold its transaction for minutes: nobody is that late with what it emits."""
    drafts = [EventDraft(uuid7(), "a.b", "{}"), EventDraft(uuid7(), "a.b", "{}", run_at=LATER)]
    for some in (drafts[:1], drafts):
        async with daemon_session(database) as connection, connection.transaction():
            await connection.execute("delete from inboxd.events")
            await connection.execute("select pg_sleep(0.1)")
            began = await connection.fetchval("select now()")
            await emitted.write(connection, SQL, [(draft, PARENT) for draft in some])
            rows = {
                row["event_id"]: row
                for row in await connection.fetch("select * from inboxd.events")
            }
        plain = rows[drafts[0].event_id]
        assert plain["occurred_at"] == plain["run_at"] <= plain["created_at"]
        assert plain["occurred_at"] - began >= timedelta(seconds=0.1)
        if later := rows.get(drafts[1].event_id):
            assert (later["occurred_at"], later["run_at"]) == (plain["occurred_at"], LATER)


async def test_webhooks_are_written_beside_events(database: Database) -> None:
    await add(database, "one", "a.*", ordered=True)
    await add(database, "two", "a.*")
    full = WebhookDraft(
        "a.b", '{"n": 1}', "m1", "one", "k", "acme", "order", "5", LATER, LATER + timedelta(days=1)
    )
    event = EventDraft(uuid7(), "a.b", "{}")
    (written,) = await write(database, full, event, WebhookDraft("a.c", "{}"))
    assert written["event_id"] == event.event_id
    first, second, third = sorted(await deliveries(database), key=lambda row: row["id"])
    assert (first["queue"], first["ordering_key"], first["tenant"]) == ("webhooks.one", "k", "acme")
    assert (first["entity_type"], first["entity_id"]) == ("order", "5")
    assert first["run_at"] == LATER + timedelta(days=1)
    assert first["payload"] == {
        "endpoint": "one",
        "id": "m1",
        "type": "a.b",
        "timestamp": "2030-01-01T00:00:00.000000Z",
        "data": {"n": 1},
    }
    assert [second["queue"], third["queue"]] == ["webhooks.one", "webhooks.two"]
    for row in (first, second, third):
        assert (row["origin_kind"], row["origin_id"]) == ("event", 7)
        assert (row["correlation_id"], row["causation_id"]) == ("story", CAUSE)
        assert row["traceparent"] == "00-1"


_WAITED = (
    'while inserting index tuple (0,1) in relation "dedup_pkey"',
    "beim Einfügen von Indextupel (0,1) in Relation »dedup_pkey«",
    "lors de l'insertion de l'enregistrement (0, 1) de l'index dans la relation « dedup »",
    'リレーション"dedup_pkey"のインデックスタプル(0,1)の挿入中',
    '0,1 튜플 인덱스(해당 릴레이션 "dedup_pkey")를 삽입하는 중에 발생',
    '向关系 "dedup" 插入索引元组 (0,1) 时',
)


@pytest.mark.parametrize("said", _WAITED)
async def test_a_key_that_is_held_is_told_in_every_language(said: str) -> None:
    """As PostgreSQL's translations say what a transaction waited for."""
    more = '\nSQL statement "INSERT INTO inboxd.dedup (topic, key) VALUES (0,1)"'
    with pytest.raises(DedupKeyHeld):
        await emitted._execute(cast(Any, _Refusing(said + more)), "")
    for other in (said.replace("dedup", "events"), more.strip(), ""):
        with pytest.raises(asyncpg.LockNotAvailableError):
            await emitted._execute(cast(Any, _Refusing(other + more)), "")


class _Refusing:
    """A session whose statement waits for a lock that somebody else has."""

    def __init__(self, context: str) -> None:
        self._context = context

    async def execute(self, _statement: str, *_arrays: Any) -> str:
        raise asyncpg.PostgresError.new({"C": "55P03", "M": "lock timeout", "W": self._context})
