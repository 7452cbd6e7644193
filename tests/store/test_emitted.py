"""Emitted events are written by few statements, with their origin."""

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
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio

CAUSE = uuid4()
PARENT = Parent("event", 7, Lineage("story", CAUSE, "00-1"))
LATER = datetime(2030, 1, 1, tzinfo=UTC)


async def write(
    database: Database, *drafts: EventDraft | WebhookDraft, parent: Parent = PARENT
) -> list[asyncpg.Record]:
    """Write drafts as a page does; returns all events."""
    async with daemon_session(database) as session, session.transaction():
        await emitted.write(session, [(draft, parent) for draft in drafts])
    return await database.fetch("select * from inboxd.events order by id")


async def test_columns_have_the_values_of_the_handler(database: Database) -> None:
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


async def test_delay_counts_from_the_time_of_writing(database: Database) -> None:
    """Together with drafts that have a time, or neither."""
    late = EventDraft(uuid7(), "a.b", "{}", delay=90.5)
    for some in ((late,), (EventDraft(uuid7(), "a.b", "{}", run_at=LATER), late)):
        await database.execute("delete from inboxd.events")
        rows = {row["event_id"]: row for row in await write(database, *some)}
        row = rows[late.event_id]
        assert row["run_at"] - row["occurred_at"] == timedelta(seconds=90.5)
        assert {rows[draft.event_id]["run_at"] for draft in some[:-1]} <= {LATER}


async def test_emitted_event_goes_to_each_subscribed_topic(database: Database) -> None:
    await database.execute(
        "insert into inboxd.subscriptions (type, topic) values ('a.b', 'one'), ('a.b', 'two')"
    )
    rows = await write(database, EventDraft(uuid7(), "a.b", "{}"))
    assert [(row["topic"], row["origin_id"]) for row in rows] == [("one", 7), ("two", 7)]
    assert len({row["event_id"] for row in rows}) == 1


async def test_drafts_beyond_one_statement_are_written_in_order(database: Database) -> None:
    drafts = [
        EventDraft(UUID(int=n), "a.b", "{}", topic="t", mode="sequential") for n in range(7_000)
    ]
    rows = await write(database, *drafts)
    assert [row["event_id"] for row in rows] == [draft.event_id for draft in drafts]


async def test_inherited_long_texts_are_accepted(database: Database) -> None:
    """A row from before the limits may emit; limits hold for the fields that its handler gives."""
    old = Parent("command", 7, Lineage("c" * 300, CAUSE, "t" * 300))
    (row,) = await write(database, EventDraft(uuid7(), "a.b", "{}", tenant="x" * 300), parent=old)
    assert len(row["correlation_id"]) == len(row["traceparent"]) == len(row["tenant"]) == 300
    with pytest.raises(asyncpg.CheckViolationError, match="entity_id has 300 bytes"):
        await write(database, EventDraft(uuid7(), "a.b", "{}", entity_id="x" * 300), parent=old)


async def test_producer_cannot_set_the_origin_of_an_event(database: Database) -> None:
    async with daemon_session(database) as session, session.transaction():
        await session.connection.execute("set local role inboxd_producer")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await session.connection.execute(
                "select inboxd.write_events(array['a.b'], array['{}']::jsonb[],"
                " origin_kinds => array['event'], origin_ids => array[1])"
            )


async def test_emitted_event_has_the_time_of_its_statement(
    database: Database,
) -> None:
    """A command may hold its transaction for minutes; its events must not look that old."""
    drafts = [EventDraft(uuid7(), "a.b", "{}"), EventDraft(uuid7(), "a.b", "{}", run_at=LATER)]
    for some in (drafts[:1], drafts):
        async with daemon_session(database) as session, session.transaction():
            await session.connection.execute("delete from inboxd.events")
            await session.connection.execute("select pg_sleep(0.1)")
            began = await session.connection.fetchval("select now()")
            await emitted.write(session, [(draft, PARENT) for draft in some])
            rows = {
                row["event_id"]: row
                for row in await session.connection.fetch("select * from inboxd.events")
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
async def test_held_dedup_key_is_recognized_in_every_language(said: str) -> None:
    """PostgreSQL's translations of the context of a lock timeout."""
    more = '\nSQL statement "INSERT INTO inboxd.dedup (topic, key) VALUES (0,1)"'
    with pytest.raises(DedupKeyHeld):
        await emitted._execute(cast(Any, _Refusing(said + more)), "")
    for other in (said.replace("dedup", "events"), more.strip(), ""):
        with pytest.raises(asyncpg.LockNotAvailableError):
            await emitted._execute(cast(Any, _Refusing(other + more)), "")


class _Refusing:
    """A session whose statement waits for another session's lock."""

    def __init__(self, context: str) -> None:
        self._context = context

    async def execute(self, _statement: str, *_arrays: Any) -> str:
        raise asyncpg.PostgresError.new({"C": "55P03", "M": "lock timeout", "W": self._context})
