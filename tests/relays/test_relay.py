"""Relays with whole workers: published messages, their order, and the ends of their events."""

import pytest

from tests.relays.relaying import attempts, emit, firsts, in_order, relaying, settled
from tests.support import Database, StartWorker
from tests.support.line_broker import LineBroker, Message, Refusal
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

KEYS: list[str | None] = [f"k{n % 7}" for n in range(300)]


async def test_events_are_published_in_the_order_of_their_keys(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    worker = await start_worker(relaying(broker))
    await emit(database, KEYS)
    await emit(database, [None] * 200, type_="match.goal")
    await settled(database, 500)
    assert len(broker.taken) == 500
    with safety():
        in_order(broker.taken)
        assert len(firsts(broker.taken)[None]) == 200
        assert await attempts(database) == {1}
        assert await database.fetchval("select count(worker_id) from inboxd.relay_leases") == 0
    assert await worker.metric('inboxd_relay_published_total{relay="results"}') == 500


async def test_a_message_is_a_cloud_event_with_its_lineage(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    await start_worker(relaying(broker, {"to": "{type}.v{version}", "source": "/bets"}))
    await database.execute(
        "insert into inboxd.events (event_id, type, schema_version, ordering_key, tenant, "
        "entity_type, entity_id, headers, correlation_id, causation_id, traceparent, payload, "
        "occurred_at) values ('0197f0a1-0000-7000-8000-000000000001', 'match.result', 2, 'm7', "
        "'acme', 'match', '7', '{\"x-request\": \"r1\", \"n\": 3}', 'story', "
        "'0197f0a1-0000-7000-8000-000000000002', "
        "'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', '{\"home\": 1}', "
        "'2026-07-01 12:00:00+00')"
    )
    await settled(database, 1)
    assert broker.taken == [
        {
            "place": 0,
            "to": "match.result.v2",
            "key": "m7",
            "id": "0197f0a1-0000-7000-8000-000000000001",
            "body": {"home": 1},
            "attributes": {
                "specversion": "1.0",
                "id": "0197f0a1-0000-7000-8000-000000000001",
                "source": "/bets",
                "type": "match.result",
                "time": "2026-07-01T12:00:00Z",
                "schemaversion": "2",
                "correlationid": "story",
                "causationid": "0197f0a1-0000-7000-8000-000000000002",
                "partitionkey": "m7",
                "subject": "7",
                "entityid": "7",
                "entitytype": "match",
                "tenant": "acme",
            },
            "headers": {
                "x-request": "r1",
                "n": "3",
                "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            },
        }
    ]


async def test_no_event_of_a_key_overtakes_one_that_was_refused_for_now(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    refused: set[object] = set()

    def now_and_then(message: Message) -> Refusal | None:
        if message["body"] % 5 == 0 and message["body"] not in refused:
            refused.add(message["body"])
            return Refusal(unroutable=True)
        return None

    broker.judge = now_and_then
    worker = await start_worker(relaying(broker))
    await emit(database, KEYS)
    await settled(database, len(KEYS))
    assert len(broker.taken) == len(KEYS)  # each once
    with safety():
        in_order(broker.taken)
    unroutable = 'inboxd_relay_refused_total{reason="unroutable",relay="results"}'
    assert await worker.metric(unroutable) == 60


async def test_an_event_refused_for_good_is_a_dead_letter_and_blocks_no_other(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda each: Refusal("too large", for_good=True) if each["body"] == 5 else None
    await start_worker(relaying(broker))
    await emit(database, ["k"] * 10)
    await settled(database, 9)
    with safety():
        assert broker.keys() == {"k": [1, 2, 3, 4, 6, 7, 8, 9, 10]}
        [dead] = await database.fetch("select status, attempts, errors from inboxd.events")
        assert (dead["status"], dead["attempts"]) == ("failed", 1)
    assert "too large" in dead["errors"]


async def test_a_relay_that_blocks_holds_the_key_behind_a_dead_letter(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda each: Refusal("too large", for_good=True) if each["body"] == 5 else None
    await start_worker(relaying(broker, {"on_failure": "block"}))
    await emit(database, ["k"] * 10)
    await emit(database, ["other"] * 10, start=11)
    await settled(database, 14)
    with safety():
        assert broker.keys() == {"k": [1, 2, 3, 4], "other": [*range(11, 21)]}


async def test_an_event_that_makes_no_message_is_a_dead_letter_at_once(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    await start_worker(relaying(broker, {"to": "results.{tenant}"}))
    await emit(database, ["k"] * 2)
    await database.execute(
        "insert into inboxd.events (type, ordering_key, tenant, payload) "
        "values ('match.result', 'k', 'acme', '3')"
    )
    await settled(database, 1)
    with safety():
        assert [each["to"] for each in broker.taken] == ["results.acme"]
    dead = await database.fetch("select attempts, errors from inboxd.events where status='failed'")
    assert [row["attempts"] for row in dead] == [1, 1]
    assert "tenant" in dead[0]["errors"]


async def test_a_pipelined_relay_repeats_messages_behind_a_refused_one(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    refused: set[object] = set()

    def once(message: Message) -> Refusal | None:
        if message["body"] != 5 or 5 in refused:
            return None
        refused.add(5)
        return Refusal()

    broker.judge = once
    await start_worker(relaying(broker, {"pipelined": True}))
    await emit(database, ["k"] * 10)
    await settled(database, 10)
    with safety():
        assert broker.keys() == {"k": [1, 2, 3, 4, 6, 7, 8, 9, 10, 5, 6, 7, 8, 9, 10]}


async def test_a_paused_relay_publishes_nothing(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    await start_worker(relaying(broker))
    await emit(database, ["k"])
    await settled(database, 1)
    await database.execute(
        "insert into inboxd.controls (kind, name, actor) values ('topic', 'results', 'me')"
    )
    await emit(database, ["k"] * 5, start=2)
    await database.execute("insert into inboxd.events (type, payload) values ('test.noop', '{}')")
    await settled(database, 2)
    with safety():
        assert len(broker.taken) == 1
    await database.execute("delete from inboxd.controls")
    await settled(database, 7)


async def test_an_event_deleted_while_it_is_published_blocks_no_other(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda each: "silent" if each["body"] == 1 else None
    await start_worker(relaying(broker, {"timeout": "2s"}))
    await emit(database, ["k", "other"])
    await broker.until(lambda: len(broker.taken) == 2)
    await database.execute("delete from inboxd.events where payload = '2'")  # as erasure may
    broker.judge = lambda _: None
    await settled(database, 1)
    with safety():
        assert await database.fetchval("select count(*) from inboxd.events") == 0


async def test_a_worker_that_stops_settles_what_it_has_published(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    worker = await start_worker(relaying(broker))
    await emit(database, KEYS)
    await broker.until(lambda: len(broker.taken) > 20)
    assert await worker.stop() == 0
    left = await database.fetchval("select count(*) from inboxd.events")
    with safety():
        assert len(broker.taken) == len(KEYS) - left
    await start_worker(relaying(broker))
    await settled(database, len(KEYS))
    with safety():
        assert len(broker.taken) == len(KEYS)


async def test_a_worker_without_the_relay_leaves_its_events_alone(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    """Though it has a handler of their type, for any topic."""
    relay = {"types": ["test.noop"]}
    first = await start_worker(relaying(broker, relay))
    assert await first.stop() == 0
    await start_worker()
    await database.execute(
        "insert into inboxd.events (type, payload) select 'test.noop', '{}' "
        "from generate_series(1, 5)"
    )
    await settled(database, 5)  # the events of its own topic
    left = await database.fetch("select distinct topic, status from inboxd.events")
    with safety():
        assert [(row["topic"], row["status"]) for row in left] == [("results", "waiting")]
    await start_worker(relaying(broker, relay))
    await settled(database, 10)
    with safety():
        assert len(broker.taken) == 5
