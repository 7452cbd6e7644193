"""Each event once: races, rollbacks, COPY, contradictions, deadlocks, in every way to write."""

import json
from collections.abc import Callable
from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest
from anyio import to_thread
from sqlalchemy import BigInteger, Column, MetaData, Table, Text, create_engine, orm

from inboxd.client import Inbox, NewEvent
from tests.support import Database, eventually
from tests.support.waiting import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

INSERT = """insert into inboxd.events (topic, type, source, dedup_key, payload)
            values ('stock', 'a.b', 'shop', $1, $2) returning event_id"""
EMIT = """select new_event_id from inboxd.emit_event(
              'a.b', $2, topic => 'stock', source => 'shop', dedup_key => $1)"""
BULK = """select event_id from inboxd.emit_events(jsonb_build_array(jsonb_build_object(
              'type', 'a.b', 'topic', 'stock', 'source', 'shop', 'dedup_key', $1::text,
              'payload', $2::jsonb)))"""
COUNT = "select count(*) from inboxd.events"
WAYS = pytest.mark.parametrize("way", [INSERT, EMIT, BULK], ids=["insert", "emit", "bulk"])


@WAYS
async def test_one_of_fifty_concurrent_duplicates_is_written(database: Database, way: str) -> None:
    ready = anyio.Event()

    async def send() -> None:
        async with database.connect() as producer:
            statement = await producer.prepare(way)
            await ready.wait()
            await statement.fetch("order-7", '{"n": 1}')

    with bounded():
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            ready.set()
    assert await database.fetchval(COUNT) == 1
    assert await database.fetchval("select count(*) from inboxd.dedup") == 1
    assert await database.fetchval("select count(*) from inboxd.duplicates") == 49


@WAYS
async def test_a_rollback_leaves_no_record(database: Database, way: str) -> None:
    async with database.connect() as producer:
        transaction = producer.transaction()
        await transaction.start()
        await producer.fetch(way, "order-7", "{}")
        await transaction.rollback()
        await producer.fetch(way, "order-7", "{}")
    assert await database.fetchval(COUNT) == 1
    assert await database.fetchval("select count(*) from inboxd.duplicates") == 0


async def test_an_event_that_waited_for_a_rolled_back_duplicate_is_written(
    database: Database,
) -> None:
    async with database.connect() as first, database.connect() as second:
        transaction = first.transaction()
        await transaction.start()
        await first.fetch(INSERT, "order-7", "{}")
        async with anyio.create_task_group() as group:
            group.start_soon(second.fetch, INSERT, "order-7", "{}")
            await _blocked(database)
            await transaction.rollback()
    assert await database.fetchval(COUNT) == 1


@WAYS
async def test_a_settled_event_still_has_duplicates(database: Database, way: str) -> None:
    (first,) = await database.fetch(way, "order-7", "{}")
    await database.execute("delete from inboxd.events")
    again = await database.fetch(way, "order-7", "{}")
    assert await database.fetchval(COUNT) == 0
    assert again == ([] if way is INSERT else [first])  # the answer names the first event


@WAYS
async def test_another_source_or_topic_is_another_event(database: Database, way: str) -> None:
    other = way.replace("'shop'", "'market'"), way.replace("'stock'", "'billing'")
    for statement in (way, *other, way):
        await database.fetch(statement, "order-7", "{}")
    assert await database.fetchval(COUNT) == 3


@WAYS
async def test_a_contradiction_is_a_dead_letter_with_its_reason(
    database: Database, way: str
) -> None:
    async with database.connect() as producer:
        heard: list[asyncpg.PostgresLogMessage] = []
        producer.add_log_listener(lambda _, message: heard.append(message))
        (first,) = await producer.fetch(way, "order-7", '{"n": 1, "m": 2}')
        await producer.fetch(
            way, "order-7", '{"m": 2, "n": 1}'
        )  # the same body, with keys in another order
        assert heard == []
        (second,) = await producer.fetch(way, "order-7", '{"n": 2}')
    (message,) = heard
    assert (message.sqlstate, message.severity) == ("IB008", "WARNING")
    rows = await database.fetch("select * from inboxd.events order by id")
    assert [row["event_id"] for row in rows] == [first[0], second[0]]
    assert [row["status"] for row in rows] == ["pending", "failed"]
    error = json.loads(rows[1]["errors"])[0]["error"]
    assert error.startswith("DedupConflict: ")
    assert str(first[0]) in error
    told = await database.fetch("select conflict from inboxd.duplicates order by id")
    assert [row[0] for row in told] == [False, True]


@pytest.mark.parametrize("mode", ["sequential", "batch"])
async def test_a_contradiction_has_the_bucket_of_its_line(database: Database, mode: str) -> None:
    """When it is replayed it joins its line, under the line's lock."""
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('stock', $1, 'test')", mode
    )
    for item in ("a", "b"):
        await database.execute(
            "insert into inboxd.events (topic, type, ordering_key, dedup_key, payload) "
            "values ('stock', 'a.b', 'shelf 7', 'k', jsonb_build_object('n', $1::text))",
            item,
        )
    found = await database.fetch("select status, bucket from inboxd.events order by id")
    assert [row["status"] for row in found] == ["waiting", "failed"]
    here = await database.fetchval("select inboxd.bucket_of('stock', 'shelf 7')")
    assert here != 0
    assert [row["bucket"] for row in found] == [here, here]


@pytest.mark.parametrize("way", [EMIT, BULK], ids=["emit", "bulk"])
async def test_the_answer_names_duplicate_and_conflict(database: Database, way: str) -> None:
    way = way.replace("new_event_id", "duplicate, conflict").replace("select event_id", "select *")
    answers = [(await database.fetch(way, "k", body))[0] for body in ("{}", "{}", "[1]")]
    told = [(row["duplicate"], row["conflict"]) for row in answers]
    assert told == [(False, False), (True, False), (False, True)]


@WAYS
async def test_a_repeated_contradiction_stays_one_dead_letter(database: Database, way: str) -> None:
    await database.fetch(way, "order-7", "1")
    (letter,) = await database.fetch(way, "order-7", "2")
    again = await database.fetch(way, "order-7", "2")
    assert again == ([] if way is INSERT else [letter])
    assert await database.fetchval(COUNT) == 2
    other = await database.fetch(way, "order-7", "3")
    assert other != [letter]
    assert await database.fetchval(COUNT) == 3
    told = "select array_agg((first_event = $1, conflict)::text order by id) from inboxd.duplicates"
    assert await database.fetchval(told, letter[0]) == ["(f,t)", "(t,f)", "(f,t)"]
    await database.execute("delete from inboxd.events")  # settled: the key is still known
    await database.fetch(way, "order-7", "2")
    assert await database.fetchval(COUNT) == 0


WITH_ID = [
    """insert into inboxd.events (topic, type, source, event_id, dedup_key, payload)
       values ('stock', 'a.b', $4, $1, $2, $3) returning id, event_id, false, false""",
    """select id, new_event_id, duplicate, conflict from inboxd.emit_event('a.b', $3,
           topic => 'stock', source => $4, event_id => $1, dedup_key => $2)""",
    """select id, event_id, duplicate, conflict from inboxd.emit_event_arrays(array['a.b'],
           array[$3::jsonb], array['stock'], array[$1::uuid], sources => array[$4],
           dedup_keys => array[$2])""",
]
WITH_IDS = pytest.mark.parametrize("way", WITH_ID, ids=["insert", "emit", "bulk"])


@WITH_IDS
@pytest.mark.parametrize("recorded", [True, False])
async def test_a_repeated_contradiction_with_an_event_id_returns_its_dead_letter(
    database: Database, way: str, *, recorded: bool
) -> None:
    first, second = uuid4(), uuid4()
    await database.fetch(way, first, "k", "1", "shop")
    (letter,) = await database.fetch(way, second, "k", "2", "shop")
    if not recorded:  # as before contradictions were recorded
        await database.execute("delete from inboxd.dedup where key <> 'k'")
    again = await database.fetch(way, second, "k", "2", "shop")
    assert [tuple(row) for row in again] == (
        [] if way is WITH_ID[0] else [(letter["id"], second, True, True)]
    )
    assert await database.fetchval(COUNT) == 2


@WITH_IDS
async def test_a_contradiction_with_the_first_ones_event_id_writes_nothing(
    database: Database, way: str
) -> None:
    event_id = uuid4()
    (first,) = await database.fetch(way, event_id, "k", "1", "shop")
    for _ in range(2):
        again = await database.fetch(way, event_id, "k", "2", "shop")
        assert [tuple(row) for row in again] == (
            [] if way is WITH_ID[0] else [(first["id"], event_id, True, True)]
        )
    assert await database.fetchval("select bool_and(conflict) from inboxd.duplicates")
    await database.fetch(
        way, uuid4(), "k", "2", "shop"
    )  # with an id of its own it can be a dead letter
    assert await database.fetchval("select count(*) from inboxd.events where status = 'failed'")


async def test_one_of_concurrent_contradictions_is_a_dead_letter(database: Database) -> None:
    await database.fetch(INSERT, "order-7", "1")
    async with database.connect() as one, database.connect() as other:
        transaction = one.transaction()
        await transaction.start()
        await one.fetch(INSERT, "order-7", "2")
        async with anyio.create_task_group() as group:
            group.start_soon(other.fetch, INSERT, "order-7", "2")
            await _blocked(database)
            await transaction.commit()
    assert await database.fetchval(COUNT) == 2


@WITH_IDS
@pytest.mark.parametrize(("source", "key"), [("shop", "l"), ("market", "k")])
@pytest.mark.parametrize("mode", ["single", "sequential"])
async def test_a_repeated_event_id_with_another_key_does_not_take_the_key(
    database: Database, way: str, source: str, key: str, mode: str
) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('stock', $1, 'test')", mode
    )
    event_id = uuid4()
    (first,) = await database.fetch(way, event_id, "k", "1", "shop")
    try:
        again = await database.fetch(way, event_id, key, "2", source)
    except asyncpg.UniqueViolationError:
        assert way is WITH_ID[0]
    else:
        assert [tuple(row) for row in again] == [(first["id"], event_id, True, False)]
    assert await database.fetchval("select count(*) from inboxd.dedup") == 1
    await database.fetch(way, uuid4(), key, "2", source)
    assert await database.fetchval(COUNT) == 2


@pytest.mark.parametrize("way", WITH_ID[1:], ids=["emit", "bulk"])
async def test_a_concurrent_event_id_with_another_key_does_not_take_the_key(
    database: Database, way: str
) -> None:
    event_id = uuid4()
    async with database.connect() as one, database.connect() as other:
        transaction = one.transaction()
        await transaction.start()
        await one.fetch(way, event_id, "k", "1", "shop")
        async with anyio.create_task_group() as group:
            group.start_soon(other.fetch, way, event_id, "l", "2", "shop")
            await _blocked(database)
            await transaction.commit()
    assert await database.fetchval("select array_agg(key) from inboxd.dedup") == ["k"]


async def test_an_event_that_is_not_written_takes_no_key(database: Database) -> None:
    """One event_id is settled in the first of two topics, and unsettled in the second."""
    await database.execute(
        "insert into inboxd.subscriptions (type, topic) values ('a.b', 'a'), ('a.b', 'b')"
    )
    emits = {
        "emit": "select inboxd.emit_event('a.b', event_id => $1, dedup_key => $2)",
        "bulk": """select inboxd.emit_event_arrays(array['a.b'], array['{}'::jsonb],
                       event_ids => array[$1::uuid], dedup_keys => array[$2])""",
    }
    for name, emit in emits.items():
        event_id = uuid4()
        await database.fetch(emit, event_id, f"{name} k")
        await database.execute("delete from inboxd.events where topic = 'a'")
        await database.fetch(emit, event_id, f"{name} l")
    taken = "select array_agg(topic || ' ' || key order by topic, key) from inboxd.dedup"
    expected = ["a bulk k", "a bulk l", "a emit k", "a emit l", "b bulk k", "b emit k"]
    assert await database.fetchval(taken) == expected


async def test_copy_writes_each_event_once(database: Database) -> None:
    keys = [f"order-{n % 300}" for n in range(900)]
    async with database.connect() as producer:
        await producer.execute("set role inboxd_producer")
        for _ in range(2):
            await producer.copy_records_to_table(
                "events",
                schema_name="inboxd",
                columns=["type", "dedup_key"],
                records=[("a.b", key) for key in keys],
            )
    assert await database.fetchval(COUNT) == 300
    assert await database.fetchval("select count(*) from inboxd.duplicates") == 1500


async def test_duplicates_within_one_page_are_found(database: Database) -> None:
    one, two = uuid4(), uuid4()
    drafts = [
        NewEvent("a.b", {"n": 1}, event_id=one, dedup_key="k"),
        NewEvent("a.b", {"n": 1}, event_id=one, dedup_key="k"),
        NewEvent("a.b", {"n": 1}, event_id=two, dedup_key="k"),
        NewEvent("a.b", {"n": 2}, dedup_key="k"),
        NewEvent("a.b", {"n": 3}, dedup_key="l"),
    ]
    async with database.connect() as producer:
        receipts = await Inbox().emit_many(producer, drafts)
    assert [r.duplicate for r in receipts] == [False, True, True, False, False]
    assert [r.conflict for r in receipts] == [False, False, False, True, False]
    assert [r.event_id for r in receipts[:3]] == [one] * 3
    assert len({r.id for r in receipts}) == 3
    assert await database.fetchval(COUNT) == 3
    assert await database.fetchval("select count(*) from inboxd.duplicates") == 3


async def test_known_and_new_keys_of_a_page_are_distinguished(database: Database) -> None:
    one = uuid4()
    async with database.connect() as producer:
        (first,) = await Inbox().emit_many(producer, [NewEvent("a.b", {"n": 1}, dedup_key="k")])
        page = [
            NewEvent("a.b", {"n": 1}, dedup_key="k"),
            NewEvent("a.b", event_id=one, dedup_key="l"),
            NewEvent("a.b", event_id=one, dedup_key="m"),
            NewEvent("a.b", {"n": 2}, dedup_key="k"),
            NewEvent("a.b"),
        ]
        receipts = await Inbox().emit_many(producer, page)
    assert [r.duplicate for r in receipts] == [True, False, True, False, False]
    assert [r.conflict for r in receipts] == [False, False, False, True, False]
    assert [r.event_id for r in receipts[:3]] == [first.event_id, one, one]
    written = "select status from inboxd.events order by id"
    statuses = [row["status"] for row in await database.fetch(written)]
    assert sorted(statuses) == ["failed", "pending", "pending", "pending"]
    told = "select key from inboxd.duplicates order by key"
    assert [row["key"] for row in await database.fetch(told)] == ["k", "k", "m"]
    recorded = "select array_agg(key order by key) from inboxd.dedup where event_id = $1"
    assert await database.fetchval(recorded, one) == ["l"]


def _by_event_id(key: str) -> dict[str, str]:
    return {"event_id": key}


def _by_payload(key: str) -> dict[str, object]:
    return {"payload": {"order": {"id": key}}}


@pytest.mark.parametrize(
    ("path", "given"), [("{}", _by_event_id), ("{order,id}", _by_payload)], ids=["id", "payload"]
)
async def test_a_topic_declares_the_field_of_its_keys(
    database: Database, path: str, given: Callable[[str], dict[str, object]]
) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, dedup_path, source)"
        " values ('stock', 'single', $1::text::text[], 'test')",
        path,
    )
    key = str(uuid4())
    events = json.dumps([{"type": "a.b", "topic": "stock", **given(key)}])
    for _ in range(2):
        await database.fetch("select * from inboxd.emit_events($1)", events)
        await database.execute("delete from inboxd.events")
    insert = (
        "insert into inboxd.events (type, topic, event_id, payload)"
        " select 'a.b', 'stock', coalesce(e.event_id, gen_random_uuid()), coalesce(e.payload, '{}')"
        " from jsonb_to_record($1) as e(event_id uuid, payload jsonb) returning id"
    )
    assert await database.fetch(insert, json.dumps(given(key))) == []
    assert await database.fetchval("select array_agg(key) from inboxd.dedup") == [key]


async def test_an_event_without_the_declared_field_has_no_key(database: Database) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, dedup_path, source)"
        " values ('stock', 'single', '{order}', 'test')"
    )
    for _ in range(2):
        await database.fetch("select inboxd.emit_event('a.b', '{}', 'stock')")
        long = json.dumps({"order": "x" * 1000})
        await database.fetch("select inboxd.emit_event('a.b', $1, 'stock')", long)
    assert await database.fetchval(COUNT) == 3
    assert len(await database.fetchval("select key from inboxd.dedup")) == 64  # its SHA-256


@pytest.mark.parametrize("mode", ["single", "sequential"])
async def test_the_key_of_an_unwritten_event_is_not_recorded(database: Database, mode: str) -> None:
    """One event_id twice in a page, first with a key that another event has."""
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('t', $1, 'test')", mode
    )
    event_id = uuid4()
    again = [NewEvent("a.b", topic="t", event_id=event_id, dedup_key=key) for key in ("a", "b")]
    async with database.connect() as producer:
        await Inbox().emit_many(producer, [NewEvent("a.b", topic="t", dedup_key="a")])
        await Inbox().emit_many(producer, again)
    assert await database.fetchval("select event_id from inboxd.dedup where key = 'b'") == event_id
    written = "select dedup_key from inboxd.events where event_id = $1"
    assert await database.fetchval(written, event_id) == "b"


@pytest.mark.parametrize("mode", ["single", "sequential"])
async def test_same_keys_in_opposite_orders_do_not_deadlock(database: Database, mode: str) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('t', $1, 'test')", mode
    )

    async def emit(keys: list[str], owner: str) -> None:
        async with database.connect() as producer:
            events = [
                NewEvent("a.b", {"n": key}, topic="t", ordering_key=owner, dedup_key=key)
                for key in keys
            ]
            await Inbox().emit_many(producer, events)

    for turn in range(5):
        keys = [f"{turn}-{n}" for n in range(300)]
        with bounded():
            async with anyio.create_task_group() as group:
                group.start_soon(emit, keys, "a")
                group.start_soon(emit, keys[::-1], "b")
    assert await database.fetchval(COUNT) == 1500


async def test_events_of_a_line_keep_the_order_of_the_call(database: Database) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('t', 'sequential', 'test')"
    )
    keys = [f"{n * 7919 % 500:03}" for n in range(500)]
    async with database.connect() as producer:
        events = [
            NewEvent("a.b", {"key": k}, topic="t", ordering_key="o", dedup_key=k) for k in keys
        ]
        await Inbox().emit_many(producer, events)
        again = await Inbox().emit_many(producer, events)
    rows = await database.fetch("select dedup_key, status from inboxd.events order by id")
    assert [row["dedup_key"] for row in rows] == keys
    assert {row["status"] for row in rows} == {"waiting"}
    assert all(receipt.duplicate for receipt in again)


async def test_old_callers_may_pass_fewer_positional_arguments(database: Database) -> None:
    event_id = uuid4()
    by_place = "select * from inboxd.emit_event('a.b', '{}', null, $1, 1, 's', 't', 'et', 'ei')"
    (row,) = await database.fetch(by_place, event_id)
    assert tuple(row)[1:] == (event_id, False, False)
    arrays = (
        "select id, duplicate, event_id from inboxd.emit_event_arrays("
        "array['a.b', 'a.c'], array['{}', '{}']::jsonb[], null, array[$1, $2]::uuid[])"
    )
    first, second = await database.fetch(arrays, event_id, UUID(int=7))
    assert (first["id"], first["duplicate"], second["duplicate"]) == (row["id"], True, False)


async def test_a_duplicate_is_an_error_for_an_orm_but_not_for_the_function(
    database: Database,
) -> None:
    events = Table(
        *("events", MetaData(schema="inboxd"), Column("id", BigInteger, primary_key=True)),
        *(Column("type", Text), Column("dedup_key", Text)),
    )
    mapped = type("Mapped", (), {})
    orm.registry().map_imperatively(mapped, events)
    engine = create_engine(database.dsn.replace("postgresql://", "postgresql+psycopg://"))

    def add() -> None:
        with orm.Session(engine) as session, session.begin():
            row = mapped()
            row.type, row.dedup_key = "a.b", "k"
            session.add(row)

    def emit() -> bool:
        with orm.Session(engine) as session, session.begin():
            return Inbox().emit(session, "a.b", dedup_key="k").duplicate

    await to_thread.run_sync(add)
    with pytest.raises(orm.exc.FlushError, match="did not produce a new primary key"):
        await to_thread.run_sync(add)
    await database.execute("update inboxd.dedup set body_hash = null")  # the ORM wrote no payload
    assert await to_thread.run_sync(emit)
    engine.dispose()


async def _blocked(database: Database) -> None:
    async def waits() -> bool:
        waiting = "select count(*) from pg_locks where locktype = 'transactionid' and not granted"
        return bool(await database.fetchval(waiting))

    await eventually(waits)
