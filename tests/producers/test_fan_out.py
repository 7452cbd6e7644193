"""One event to several topics: a row for each subscribed topic, in every way to write."""

from uuid import uuid4

import pytest

from inboxd.client import Inbox, NewEvent
from tests.support import Database

pytestmark = pytest.mark.anyio

INSERT = "insert into inboxd.events (type, event_id, dedup_key) values ('a.b', $1, $2) returning id"
EMIT = "select id from inboxd.emit_event('a.b', event_id => $1, dedup_key => $2)"
BULK = """select id from inboxd.emit_events(jsonb_build_array(jsonb_build_object(
              'type', 'a.b', 'event_id', $1::uuid, 'dedup_key', $2::text)))"""
WAYS = pytest.mark.parametrize("way", [INSERT, EMIT, BULK], ids=["insert", "emit", "bulk"])
ROWS = "select id, event_id, topic, status, dedup_key from inboxd.events order by topic"


@pytest.fixture
async def subscribed(database: Database) -> Database:
    """Three topics subscribe to a type: a sequential one, a single one, and an undeclared one."""
    await database.execute(
        """
        insert into inboxd.topics (name, mode, key_path, source)
        values ('audit', 'single', null, 'test'), ('rewards', 'sequential', '{user}', 'test');
        insert into inboxd.subscriptions (type, topic)
        values ('a.b', 'rewards'), ('a.b', 'audit'), ('a.b', 'zeal'), ('a.c', 'rewards');
        """
    )
    return database


@WAYS
async def test_every_subscribed_topic_gets_its_row(subscribed: Database, way: str) -> None:
    event_id = uuid4()
    (answer,) = await subscribed.fetch(way, event_id, None)
    rows = await subscribed.fetch(ROWS)
    told = [(row["topic"], row["status"], row["event_id"]) for row in rows]
    statuses = {"audit": "pending", "rewards": "waiting", "zeal": "pending"}
    assert told == [(topic, status, event_id) for topic, status in statuses.items()]
    assert answer["id"] == rows[0]["id"]


@WAYS
async def test_a_dedup_key_counts_in_each_topic(subscribed: Database, way: str) -> None:
    await subscribed.execute(
        "insert into inboxd.events (type, topic, dedup_key) values ('a.b', 'rewards', 'k')"
    )
    (answer,) = await subscribed.fetch(way, uuid4(), "k")
    again = await subscribed.fetch(way, uuid4(), "k")
    rows = await subscribed.fetch(ROWS)
    assert [row["topic"] for row in rows] == ["audit", "rewards", "zeal"]
    assert answer["id"] == rows[0]["id"]
    assert again == ([] if way is INSERT else [answer])
    repeats = "select array_agg(topic order by id) from inboxd.duplicates"
    assert sorted(await subscribed.fetchval(repeats)) == ["audit", "rewards", "rewards", "zeal"]


async def test_copy_reaches_every_topic(subscribed: Database) -> None:
    async with subscribed.connect() as producer:
        await producer.execute("set role inboxd_producer")
        await producer.copy_records_to_table(
            "events", schema_name="inboxd", columns=["type"], records=[("a.b",)] * 10
        )
    counted = "select topic, count(*) from inboxd.events group by 1 order by 1"
    assert [tuple(row) for row in await subscribed.fetch(counted)] == [
        *(("audit", 10), ("rewards", 10), ("zeal", 10)),
    ]


@WAYS
async def test_a_named_topic_is_the_only_one(subscribed: Database, way: str) -> None:
    way = {
        INSERT: INSERT.replace("(type, ", "(topic, type, ").replace("('a.b'", "('zeal', 'a.b'"),
        EMIT: EMIT.replace("'a.b'", "'a.b', topic => 'zeal'"),
        BULK: BULK.replace("'a.b'", "'a.b', 'topic', 'zeal'"),
    }[way]
    await subscribed.fetch(way, uuid4(), None)
    assert [row["topic"] for row in await subscribed.fetch(ROWS)] == ["zeal"]


@WAYS
async def test_a_type_without_subscriptions_goes_to_the_default_topic(
    database: Database, way: str
) -> None:
    await database.fetch(way, uuid4(), None)
    assert [row["topic"] for row in await database.fetch(ROWS)] == ["default"]


@WAYS
async def test_a_repeated_event_id_is_one_event_in_each_topic(
    subscribed: Database, way: str
) -> None:
    way = way.replace("$2)", "$2) on conflict do nothing") if way is INSERT else way
    event_id = uuid4()
    for _ in range(2):
        await subscribed.fetch(way, event_id, None)
    assert await subscribed.fetchval("select count(*) from inboxd.events") == 3


async def test_one_event_id_for_two_topics_of_a_page_is_not_a_duplicate(database: Database) -> None:
    event_id = uuid4()
    drafts = [NewEvent("a.b", topic=topic, event_id=event_id) for topic in ("a", "b", "a")]
    async with database.connect() as producer:
        receipts = await Inbox().emit_many(producer, drafts)
    assert [receipt.duplicate for receipt in receipts] == [False, False, True]
    assert receipts[0].id == receipts[2].id != receipts[1].id
    assert [row["topic"] for row in await database.fetch(ROWS)] == ["a", "b"]


async def test_a_large_payload_is_stored_for_each_row(subscribed: Database) -> None:
    await subscribed.execute(
        "insert into inboxd.events (type, payload)"
        " select 'a.b', jsonb_build_object('user', 'u', 'blob', string_agg(md5(n::text), ''))"
        " from generate_series(1, 100) as n"
    )
    rows = await subscribed.fetch(
        "select body_id, ordering_key, topic from inboxd.events order by topic"
    )
    assert all(row["body_id"] is not None for row in rows)
    assert [row["ordering_key"] for row in rows] == [None, "u", None]
