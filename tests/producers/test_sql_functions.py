"""The SQL for any client: emit_event, send_command, their bulk forms, large payloads."""

import json
from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest

from inboxd.embedded import Server
from tests.support import Database, eventually
from tests.support.locks import lock_awaited
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


async def test_one_argument_is_enough(database: Database) -> None:
    (event,) = await database.fetch("SELECT * FROM inboxd.emit_event('a.b')")
    (command,) = await database.fetch("SELECT * FROM inboxd.send_command('a.b', NULL)")
    assert not event["duplicate"]
    assert isinstance(event["new_event_id"], UUID)
    (row,) = await database.fetch("SELECT * FROM inboxd.events")
    assert (row["id"], row["topic"], row["payload"]) == (event["id"], "default", "{}")
    (row,) = await database.fetch("SELECT * FROM inboxd.commands")
    assert (row["id"], row["queue"], row["payload"]) == (command["id"], "default", "{}")
    assert (row["origin_kind"], row["status"]) == ("api", "pending")


async def test_a_second_event_with_the_same_id_is_a_duplicate(database: Database) -> None:
    key = uuid4()
    one = "SELECT * FROM inboxd.emit_event('a.b', '{}', event_id => $1)"
    (first,) = await database.fetch(one, key)
    (second,) = await database.fetch(one, key)
    assert (second["id"], second["new_event_id"]) == (first["id"], key)
    assert (first["duplicate"], second["duplicate"]) == (False, True)


async def test_a_command_goes_to_the_queue_that_its_handler_declares(database: Database) -> None:
    await database.execute(
        "INSERT INTO inboxd.declared_types (kind, type, queue) VALUES ('command', 'a.b', 'email')"
    )
    await database.fetch("SELECT inboxd.send_command('a.b')")
    await database.fetch("""SELECT * FROM inboxd.send_commands('[{"type": "a.b"}]')""")
    await database.fetch("SELECT inboxd.send_command('a.b', queue => 'other')")
    rows = await database.fetch("SELECT queue FROM inboxd.commands ORDER BY id")
    assert [row["queue"] for row in rows] == ["email", "email", "other"]


async def test_a_bulk_call_answers_in_the_order_given(database: Database) -> None:
    known = str(uuid4())
    given = [
        {"type": "a.b", "event_id": known, "payload": {"n": 0}, "tenant": "t1"},
        {"type": "a.c", "payload": [1], "schema_version": 3},
        {"type": "a.d", "event_id": known},
        {"type": "a.e", "run_at": "2030-01-01T00:00:00Z", "headers": {"x": 1}},
    ]
    rows = await database.fetch("SELECT * FROM inboxd.emit_events($1)", json.dumps(given))
    assert [row["ordinal"] for row in rows] == [1, 2, 3, 4]
    assert [row["duplicate"] for row in rows] == [False, False, True, False]
    assert rows[0]["id"] == rows[2]["id"]
    stored = await database.fetch("SELECT * FROM inboxd.events ORDER BY type")
    assert [row["type"] for row in stored] == ["a.b", "a.c", "a.e"]
    assert (stored[0]["tenant"], stored[1]["schema_version"]) == ("t1", 3)
    assert stored[2]["run_at"].year == 2030
    assert await database.fetch("SELECT * FROM inboxd.emit_events('[]')") == []


async def test_bulk_rows_without_ids_keep_the_order_given(database: Database) -> None:
    given = json.dumps([{"type": "a.b", "payload": {"n": n}} for n in range(300)])
    await database.fetch("SELECT * FROM inboxd.send_commands($1)", given)
    rows = await database.fetch("SELECT payload FROM inboxd.commands ORDER BY id")
    assert [json.loads(row["payload"])["n"] for row in rows] == list(range(300))


async def test_arrays_of_different_lengths_are_refused(database: Database) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="different lengths"):
        await database.fetch(
            "SELECT * FROM inboxd.emit_event_arrays(ARRAY['a', 'b'], ARRAY['{}']::jsonb[])"
        )


@pytest.mark.parametrize("call", ["emit_events", "send_commands"])
async def test_an_unknown_key_of_an_item_is_refused(database: Database, call: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="item 2 has the unknown key tena"):
        await database.fetch(
            f"""select * from inboxd.{call}('[{{"type": "a.b"}}, {{"type": "a.b", "tena": 1}}]')"""
        )


async def test_same_keys_in_opposite_orders_do_not_deadlock(database: Database) -> None:
    keys = [str(uuid4()) for _ in range(200)]

    async def emit(order: list[str]) -> None:
        given = json.dumps([{"type": "a.b", "event_id": key} for key in order])
        await database.fetch("SELECT * FROM inboxd.emit_events($1)", given)

    for _ in range(5):
        with bounded():
            async with anyio.create_task_group() as group:
                group.start_soon(emit, keys)
                group.start_soon(emit, keys[::-1])
        assert await database.fetchval("SELECT count(*) FROM inboxd.events") == 200
        await database.execute("TRUNCATE inboxd.events")


async def test_one_event_for_topics_in_opposite_orders_does_not_deadlock(
    database: Database,
) -> None:
    """Both wait for a third session, which has inserted into topic a."""
    waits = (
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and wait_event_type = 'Lock'"
    )

    async def emit(event_id: UUID, topics: str) -> None:
        given = [{"type": "a.b", "topic": topic, "event_id": str(event_id)} for topic in topics]
        await database.fetch("select * from inboxd.emit_events($1)", json.dumps(given))

    async def waiting(count: int) -> None:
        async def are() -> bool:
            return bool(await database.fetchval(waits) == count)

        await eventually(are)

    for _ in range(5):  # which of the two is woken first is random
        event_id = uuid4()
        async with database.connect() as third:
            transaction = third.transaction()
            await transaction.start()
            await third.execute(
                "insert into inboxd.events (type, topic, event_id) values ('a.b', 'a', $1)",
                event_id,
            )
            async with anyio.create_task_group() as group:
                group.start_soon(emit, event_id, "ab")
                await waiting(1)
                group.start_soon(emit, event_id, "ba")
                await waiting(2)
                await transaction.rollback()
    assert await database.fetchval("select count(*) from inboxd.events") == 10


async def test_a_duplicate_of_a_row_committed_meanwhile_has_its_id(database: Database) -> None:
    key = uuid4()
    call = "SELECT id, duplicate FROM inboxd.emit_events($1)"
    given = json.dumps([{"type": "a.b", "event_id": str(key)}])
    answers: list[list[asyncpg.Record]] = []

    async def second() -> None:
        answers.append(await database.fetch(call, given))

    async with database.connect() as first:
        transaction = first.transaction()
        await transaction.start()
        (row,) = await first.fetch(call, given)
        async with anyio.create_task_group() as group:
            group.start_soon(second)
            await lock_awaited(database)
            await transaction.commit()
    assert [tuple(each) for each in answers[0]] == [(row["id"], True)]


async def test_a_key_committed_meanwhile_is_a_serialization_error_under_repeatable_read(
    database: Database,
) -> None:
    given = json.dumps([{"type": "a.b", "event_id": str(uuid4())}])
    call = "SELECT * FROM inboxd.emit_events($1)"
    async with database.connect() as connection:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetchval("SELECT 1")  # takes the snapshot
        await database.fetch(call, given)
        with pytest.raises(asyncpg.SerializationError):
            await connection.fetch(call, given)


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize("plain", [True, False])
async def test_a_large_payload_goes_to_bodies(database: Database, table: str, plain: bool) -> None:
    payload = json.dumps({"blob": "x" * 2000})
    insert = f"INSERT INTO inboxd.{table} (type, payload) VALUES ('a.b', $1)"
    call = f"SELECT inboxd.{'emit_event' if table == 'events' else 'send_command'}('a.b', $1)"
    await database.execute(insert if plain else call, payload)
    await database.execute(insert if plain else call, '{"small": true}')
    large, small = await database.fetch(
        f"SELECT r.payload AS kept, b.payload AS moved, r.body_bytes FROM inboxd.{table} r "
        "LEFT JOIN inboxd.bodies b ON b.id = r.body_id AND b.created_at = r.body_at ORDER BY r.id"
    )
    assert (large["kept"], json.loads(large["moved"])) == (None, json.loads(payload))
    assert large["body_bytes"] > 2000
    assert (small["kept"], small["moved"]) == ('{"small": true}', None)


async def test_a_large_payload_without_a_partition_stays_in_its_row(database: Database) -> None:
    async with database.connect() as connection:
        await connection.execute(
            "SET timezone = 'Pacific/Kiritimati'"
        )  # partitions are days in UTC
        part = await connection.fetchval(
            "SELECT 'inboxd.bodies' || to_char(now() AT TIME ZONE 'UTC', '_YYYYMMDD')"
        )
        await connection.execute(f"DROP TABLE {part}")
        payload = json.dumps({"blob": "x" * 2000})
        await connection.execute("SELECT inboxd.emit_event('a.b', $1)", payload)
        row = await connection.fetchrow("SELECT payload, body_id FROM inboxd.events")
    assert row is not None
    assert (json.loads(row["payload"]), row["body_id"]) == (json.loads(payload), None)


async def test_the_functions_do_not_depend_on_the_search_path(database: Database) -> None:
    async with database.connect() as connection:
        await connection.execute("SET search_path = ''")
        await connection.execute("INSERT INTO inboxd.events (type, payload) VALUES ('a', '{}')")
        await connection.fetch("SELECT * FROM inboxd.emit_event('a.b')")
        await connection.fetch("""SELECT * FROM inboxd.emit_events('[{"type": "a.b"}]')""")


async def test_two_phase_commit_works_with_notifications_off(
    restartable_server: Server, restartable_database: Database
) -> None:
    await restartable_database.execute("ALTER SYSTEM SET max_prepared_transactions = 5")
    restartable_server.restart()
    async with restartable_database.connect() as connection:
        with pytest.raises(asyncpg.FeatureNotSupportedError, match="NOTIFY"):
            await connection.execute(
                "BEGIN; SELECT inboxd.emit_event('a'); PREPARE TRANSACTION 'x'"
            )
        await connection.execute("ROLLBACK; SET inboxd.notify = 'off'")
        await connection.execute("BEGIN; SELECT inboxd.emit_event('a'); PREPARE TRANSACTION 'x'")
        await connection.execute("COMMIT PREPARED 'x'")
        assert await connection.fetchval("SELECT count(*) FROM inboxd.events") == 1


async def test_a_session_with_notifications_off_sends_none(database: Database) -> None:
    heard: list[str] = []
    async with database.connect() as listener, database.connect() as producer:
        await listener.add_listener("inboxd_events", lambda *_: heard.append("event"))
        await listener.add_listener("done", lambda *_: heard.append("done"))
        await producer.execute("SET inboxd.notify = 'off'; SELECT inboxd.emit_event('a.b')")
        await producer.execute("NOTIFY done")

        async def is_done() -> bool:
            return "done" in heard

        await eventually(is_done)
        assert heard == ["done"]
        await producer.execute("RESET inboxd.notify")
        await producer.execute("SELECT inboxd.emit_event('a.b')")
        await producer.execute("NOTIFY done")

        async def is_done_again() -> bool:
            return heard.count("done") == 2

        await eventually(is_done_again)
        assert heard == ["done", "event", "done"]
