"""Emitted events reach the endpoints that want events, each once, however they are written."""

import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from inboxd.outbound.endpoints.emitted import FactToTell
from tests.outbound.delivering import NO_POLL, delivered, rows
from tests.support import Database, StartWorker, eventually
from tests.support.customer import Customer
from tests.support.endpoints import SECRET, add
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

EMIT = "select * from inboxd.emit_event($1, $2, event_id => $3)"
ASKED = "select type, tenant, ordered from inboxd.emitted_types order by 1, 2"


async def told(database: Database) -> list[dict[str, Any]]:
    """The commands that make deliveries, in the order in which they were written."""
    found = await database.fetch(
        "select * from inboxd.commands where type = 'webhook.emitted' order by id"
    )
    return [{**row, "payload": json.loads(row["payload"])} for row in found]


async def all_settled(database: Database) -> None:
    """Wait until no command is left."""

    async def are() -> bool:
        return not await database.fetchval("select exists (select from inboxd.commands)")

    await eventually(are)


async def test_an_event_reaches_its_endpoints_however_it_is_written(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    await add(database, "facts", "order.*", url=customer.url("/facts"), events=True)
    await add(database, "else", "user.*", url=customer.url("/else"), events=True)
    await add(database, "sent", url=customer.url("/sent"))
    await start_worker(NO_POLL)
    ids = [uuid4() for _ in range(4)]
    await database.fetch(EMIT, "order.paid", '{"n": 1}', ids[0])
    async with database.connect() as connection:
        await connection.execute(
            "insert into inboxd.events (event_id, type, payload) values ($1, 'order.paid', $2)",
            ids[1],
            '{"n": 1}',
        )
        await connection.fetch(
            "select * from inboxd.emit_events($1)",
            json.dumps([{"type": "order.paid", "event_id": str(ids[2]), "payload": {"n": 1}}]),
        )
        await connection.copy_records_to_table(
            "events",
            schema_name="inboxd",
            columns=["event_id", "type", "payload"],
            records=[(ids[3], "order.paid", '{"n": 1}')],
        )
    got = await customer.has(4, "/facts")
    assert {each.id for each in got} == {str(each) for each in ids}
    body = json.loads(got[0].body)
    assert list(body) == ["type", "timestamp", "data"]
    assert (body["type"], body["data"]) == ("order.paid", {"n": 1})
    assert got[0].is_signed_by(SECRET)
    await all_settled(database)
    with safety():
        assert customer.at("/else") == customer.at("/sent") == []
        assert len(customer.at("/facts")) == 4


async def test_an_event_that_no_endpoint_wants_writes_no_command(database: Database) -> None:
    await add(database, "sent")
    await database.fetch(EMIT, "order.paid", "{}", uuid4())
    assert await told(database) == []
    assert await database.fetch(ASKED) == []


async def test_an_event_id_that_was_delivered_is_not_delivered_again(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    """A settled event_id may be emitted again: the endpoints have that message already."""
    await add(database, "facts", url=customer.url(), events=True)
    await start_worker(NO_POLL)
    first, last = uuid4(), uuid4()
    await database.fetch(EMIT, "a.b", "{}", first)
    await delivered(database, "facts", 1)
    await database.execute("delete from inboxd.events")  # the state after it has settled
    await database.fetch(EMIT, "a.b", "{}", first)
    await database.fetch(EMIT, "a.b", "{}", last)
    await delivered(database, "facts", 2)
    await all_settled(database)
    with safety():
        assert [each.id for each in customer.at("/")] == [str(first), str(last)]


async def test_an_event_for_several_topics_is_delivered_once(database: Database) -> None:
    await add(database, "facts", events=True)
    await database.execute(
        "insert into inboxd.subscriptions (type, topic) select 'a.b', t from"
        " unnest(array['one', 'two', 'three']) t"
    )
    await database.execute("insert into inboxd.events (type) values ('a.b'), ('a.b')")
    await database.fetch("""select * from inboxd.emit_events('[{"type": "a.b"}]')""")
    assert await database.fetchval("select count(*) from inboxd.events") == 9
    events = await rows(database, "select event_id::text, id from inboxd.events")
    found = {row["payload"]["id"]: row["origin_id"] for row in await told(database)}
    assert len(await told(database)) == len(found) == 3
    assert set(found.items()) <= set(events)


async def test_duplicates_and_contradictions_are_not_delivered(database: Database) -> None:
    await add(database, "facts", events=True)
    for body in ('{"n": 1}', '{"n": 1}', '{"n": 2}'):
        await database.fetch("select inboxd.emit_event('a.b', $1, dedup_key => 'k')", body)
    assert [row["payload"]["data"] for row in await told(database)] == [{"n": 1}]
    assert await database.fetchval("select count(*) from inboxd.events") == 2, (
        "one event and one dead letter"
    )


async def test_received_events_are_not_delivered(database: Database) -> None:
    await add(database, "facts", events=True)
    await database.fetch(
        "select * from inboxd.write_received(null, array[inboxd.new_uuid()], array['bank'],"
        " array[gen_random_uuid()], array['a.b'], array['{}']::jsonb[], null, null, null, null,"
        " null, null, null, null, null)"
    )
    assert await database.fetchval("select count(*) from inboxd.events") == 1
    assert await told(database) == []


async def test_emitted_events_with_a_source_are_delivered(database: Database) -> None:
    """Events of schedules and notices have one. A transaction that receives may emit as well."""
    await add(database, "facts", events=True)
    insert = "insert into inboxd.events (type, source) values ('a.b', 'schedule nightly')"
    await database.execute(insert)
    assert len(await told(database)) == 1
    async with database.connect() as connection, connection.transaction():
        await connection.fetch(
            "select * from inboxd.write_received(null, array[inboxd.new_uuid()], array['bank'],"
            " array[gen_random_uuid()], array['a.c'], array['{}']::jsonb[], null, null, null, null,"
            " null, null, null, null, null)"
        )
        await connection.execute(insert)
    assert [row["payload"]["type"] for row in await told(database)] == ["a.b", "a.b"]


async def test_an_event_taken_into_a_later_topic_is_not_delivered_again(
    database: Database,
) -> None:
    """Its deliveries may be made already; the session goes on to emit its later events."""
    await add(database, "facts", events=True)
    await database.execute("insert into inboxd.events (type) values ('a.b')")
    assert len(await told(database)) == 1
    await database.execute("delete from inboxd.commands")
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('later', 'single', 'plugin');"
        " insert into inboxd.subscriptions (type, topic) values ('a.b', 'later')"
    )
    async with database.connect() as connection, connection.transaction():
        taken = "select inboxd.take_events('default', 'a.b', 10)"
        assert await connection.fetchval(taken) == 1
        await connection.execute("insert into inboxd.events (type) values ('a.c')")
    assert await database.fetchval("select topic from inboxd.events where type = 'a.b'") == "later"
    assert [row["payload"]["type"] for row in await told(database)] == ["a.c"]


async def test_a_session_can_switch_deliveries_off(database: Database) -> None:
    await add(database, "facts", events=True)
    async with database.connect() as connection:
        await connection.execute("set inboxd.webhooks = 'off'")
        await connection.execute("insert into inboxd.events (type) values ('a.b')")
        assert await told(database) == []
        await connection.execute("reset inboxd.webhooks")
        await connection.execute("insert into inboxd.events (type) values ('a.b')")
    assert len(await told(database)) == 1


async def test_a_rolled_back_transaction_delivers_nothing(database: Database) -> None:
    await add(database, "facts", events=True)
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("insert into inboxd.events (type) values ('a.b')")
        await transaction.rollback()
    assert await told(database) == []


async def test_a_producer_may_emit_without_access_to_endpoints(
    database: Database,
) -> None:
    await add(database, "facts", events=True)
    async with database.connect() as connection:
        await connection.execute("set role inboxd_producer")
        await connection.execute("insert into inboxd.events (type) values ('a.b')")
        for table in ("emitted_types", "endpoints"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch(f"select * from inboxd.{table}")
    assert len(await told(database)) == 1


@pytest.mark.parametrize(
    ("asked", "emitted"),
    [
        ("*", ["user", "user.created", "user.profile.changed", "order"]),
        ("user.*", ["user.created", "user.profile.changed"]),
        ("user.profile.*", ["user.profile.changed"]),
        ("user.created", ["user.created"]),
        ("user", ["user"]),
    ],
)
async def test_types_match_as_for_sent_webhooks(
    database: Database, asked: str, emitted: list[str]
) -> None:
    await add(database, "facts", asked, events=True)
    given = ["user", "user.created", "user.profile.changed", "order"]
    await database.execute("insert into inboxd.events (type) select unnest($1::text[])", given)
    assert [row["payload"]["type"] for row in await told(database)] == emitted
    matching = [
        each
        for each in given
        if await database.fetch("select * from inboxd.send_webhook($1)", each)
    ]
    assert matching == emitted


async def test_an_event_that_no_tenant_wants_is_not_delivered(database: Database) -> None:
    await add(database, "acme", tenant="acme", events=True)
    insert = "insert into inboxd.events (type, tenant) values ('a.b', $1)"
    for tenant in (None, "other", "acme"):
        await database.execute(insert, tenant)
    assert [row["tenant"] for row in await told(database)] == ["acme"]
    await add(database, "all", events=True)
    await database.execute(insert, None)
    assert [row["tenant"] for row in await told(database)] == ["acme", None]


async def test_wanted_types_follow_the_endpoints(database: Database) -> None:
    await add(database, "one", "a.b", "c.*", events=True)
    await add(database, "two", "a.b", events=True, ordered=True)
    await add(database, "acme", "a.b", tenant="acme", events=True)
    await add(database, "sent", "d.e")
    assert await rows(database, ASKED) == [
        *(("a.b", "", True), ("a.b", "acme", False), ("c.*", "", False)),
    ]
    off = "enabled = false, disabled_at = now(), disabled_by = 'operator'"
    for change, left in (
        (
            "update inboxd.endpoints set ordered = false",
            [("a.b", ""), ("a.b", "acme"), ("c.*", "")],
        ),
        (f"update inboxd.endpoints set {off} where name = 'one'", [("a.b", ""), ("a.b", "acme")]),
        ("delete from inboxd.endpoints where name = 'acme'", [("a.b", "")]),
        ("update inboxd.endpoints set types = '{x.y}' where name = 'two'", [("x.y", "")]),
        ("update inboxd.endpoints set events = false where name = 'two'", []),
        (
            "update inboxd.endpoints set enabled = true, disabled_at = null, disabled_by = null",
            [("a.b", ""), ("c.*", "")],
        ),
    ):
        await database.execute(change)
        assert await rows(database, ASKED) == [(*each, False) for each in left], change


async def test_a_delivery_continues_the_story_of_its_event(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    await add(database, "facts", url=customer.url(), events=True)
    event, trace = uuid4(), f"00-{uuid4().hex}-{'1' * 16}-01"
    await database.fetch(
        "select inboxd.emit_event('a.b', '{}', event_id => $1, correlation_id => 'story',"
        " traceparent => $2, entity_type => 'order', entity_id => '7', tenant => 'acme')",
        event,
        trace,
    )
    ((number,),) = await rows(database, "select id from inboxd.events")
    (command,) = await told(database)
    assert (command["origin_kind"], command["origin_id"]) == ("event", number)
    assert (command["causation_id"], command["correlation_id"]) == (event, "story")
    assert (command["traceparent"], command["tenant"]) == (trace, "acme")
    await start_worker(NO_POLL)
    await delivered(database, "facts", 1)
    ((origin, came_from, story, about),) = await rows(
        database,
        "select origin_kind, origin_id, correlation_id, entity_type || entity_id"
        " from inboxd.commands_history where type = 'webhook.deliver'",
    )
    assert (origin, came_from) == ("command", command["id"])
    assert (story, about) == ("story", "order7")


async def test_a_large_payload_is_delivered_whole(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    await add(database, "facts", url=customer.url(), events=True)
    await start_worker(NO_POLL)
    data = {"text": "".join(uuid4().hex for _ in range(2000)), "none": None, "big": 10**30}
    await database.fetch(EMIT, "a.b", json.dumps(data), uuid4())
    (got,) = await customer.has(1)
    assert json.loads(got.body)["data"] == data


async def test_an_ordering_key_is_kept_for_ordered_endpoints(database: Database) -> None:
    emit = "insert into inboxd.events (type, ordering_key) values ('a.b', 'order 7')"
    await add(database, "facts", events=True)
    await database.execute(emit)
    await add(database, "ordered", "a.*", events=True, ordered=True)
    await database.execute(emit)
    await database.execute("insert into inboxd.events (type) values ('a.b')")
    assert [row["ordering_key"] for row in await told(database)] == [None, "order 7", None]
    assert {row["queue"] for row in await told(database)} == {"webhooks"}


async def test_events_of_one_key_are_delivered_in_order(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    await add(database, "facts", url=customer.url(), events=True, ordered=True)
    for _ in range(2):
        await start_worker(NO_POLL)
    for n in range(30):
        await database.execute(
            "insert into inboxd.events (type, ordering_key, payload) values ('a.b', $1, $2)",
            f"order {n % 2}",
            json.dumps({"n": n}),
        )
    await delivered(database, "facts", 30)
    numbers = [json.loads(each.body)["data"]["n"] for each in customer.at("/")]
    with safety():
        for key in range(2):
            assert [n for n in numbers if n % 2 == key] == list(range(key, 30, 2))


async def test_an_endpoint_without_events_gets_sent_webhooks_only(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    """Emitted events go to one endpoint, sent webhooks to both."""
    await add(database, "facts", url=customer.url("/facts"), events=True)
    await add(database, "sent", url=customer.url("/sent"))
    await start_worker(NO_POLL)
    event = uuid4()
    await database.fetch(EMIT, "a.b", "{}", event)
    await database.fetch("select inboxd.send_webhook('a.b', message_id => 'm1')")
    await delivered(database, "sent", 1)
    await all_settled(database)
    with safety():
        assert {each.id for each in customer.at("/facts")} == {str(event), "m1"}
        assert [each.id for each in customer.at("/sent")] == ["m1"]


async def test_a_webhook_sent_with_its_event_s_id_is_delivered_once(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    await add(database, "facts", url=customer.url(), events=True)
    event = uuid4()
    await database.fetch(EMIT, "a.b", "{}", event)
    await database.fetch("select inboxd.send_webhook('a.b', message_id => $1)", str(event))
    await database.fetch(EMIT, "a.b", "{}", uuid4())
    await start_worker(NO_POLL)
    await delivered(database, "facts", 2)
    await all_settled(database)
    with safety():
        assert [each.id for each in customer.at("/")].count(str(event)) == 1


def test_a_webhook_has_the_fields_of_its_event() -> None:
    fact = FactToTell(
        str(UUID(int=1)), "a.b", "2026-01-02T03:04:05.000006Z", {"n": 10**30, "t": "é"}, "key"
    )
    draft = fact.draft("acme")
    assert json.loads(draft.payload) == fact.data
    assert draft.occurred_at is not None
    assert draft.occurred_at.isoformat() == "2026-01-02T03:04:05.000006+00:00"
    assert (draft.message_id, draft.ordering_key, draft.tenant) == (fact.id, "key", "acme")
    assert draft.emitted
