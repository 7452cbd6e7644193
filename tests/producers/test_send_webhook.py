"""`send_webhook` and its bulk forms: which endpoints get it, once, in the sender's transaction."""

import json
from uuid import uuid4

import anyio
import asyncpg
import pytest

from tests.support import Database
from tests.support.endpoints import add, deliveries
from tests.support.locks import lock_awaited
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

SEND = "select * from inboxd.send_webhook($1, $2)"
CHOSEN = "select * from inboxd.send_webhook('user.created', message_id => $1)"


async def test_each_endpoint_whose_types_match_gets_one_delivery(database: Database) -> None:
    await add(database, "exact", "user.created", "user.gone")
    await add(database, "below", "user.*")
    await add(database, "all")
    await add(database, "other", "order.*", "user", "user.create", "users.*")
    rows = await database.fetch(SEND, "user.created", '{"n": 1}')
    assert [row["to_endpoint"] for row in rows] == ["all", "below", "exact"]
    assert not any(row["duplicate"] for row in rows)
    (message_id,) = {row["new_message_id"] for row in rows}
    assert message_id.startswith("msg_")
    sent = await deliveries(database)
    assert [row["queue"] for row in sent] == ["webhooks.all", "webhooks.below", "webhooks.exact"]
    assert {row["id"] for row in sent} == {row["id"] for row in rows}
    payload = sent[0]["payload"]
    assert payload.pop("timestamp").endswith("Z")
    assert payload == {
        "endpoint": "all",
        "id": message_id,
        "type": "user.created",
        "data": {"n": 1},
    }


async def test_a_webhook_without_an_endpoint_writes_no_row(database: Database) -> None:
    await add(database, "other", "order.*")
    assert await database.fetch(SEND, "user.created", "{}") == []
    assert await deliveries(database) == []


async def test_a_disabled_endpoint_gets_nothing(database: Database) -> None:
    await add(database, "one")
    await database.execute(
        "update inboxd.endpoints set enabled = false, disabled_at = now(), disabled_by = 'operator'"
    )
    assert await database.fetch(SEND, "user.created", "{}") == []


async def test_an_endpoint_of_a_tenant_gets_only_its_tenants_webhooks(database: Database) -> None:
    await add(database, "ours")
    await add(database, "acme", tenant="acme")
    call = "select to_endpoint from inboxd.send_webhook('user.created', tenant => $1)"
    assert [row[0] for row in await database.fetch(call, "acme")] == ["acme", "ours"]
    for tenant in ("other", None):
        assert [row[0] for row in await database.fetch(call, tenant)] == ["ours"]


async def test_one_endpoint_can_be_named(database: Database) -> None:
    await add(database, "one", "user.*")
    await add(database, "two", "user.*")
    call = "select to_endpoint from inboxd.send_webhook($1, endpoint => $2)"
    assert [row[0] for row in await database.fetch(call, "user.created", "two")] == ["two"]
    assert [row[0] for row in await database.fetch(call, "test", "two")] == ["two"], (
        "a named endpoint gets any type"
    )
    with pytest.raises(asyncpg.InvalidParameterValueError, match="no endpoint 'three'"):
        await database.fetch(call, "user.created", "three")


async def test_only_an_ordered_endpoint_has_the_ordering_key(database: Database) -> None:
    await add(database, "loose")
    await add(database, "ordered", ordered=True)
    await database.fetch("select inboxd.send_webhook('a.b', ordering_key => 'k')")
    assert [
        (row["queue"], row["ordering_key"], row["status"]) for row in await deliveries(database)
    ] == [
        ("webhooks.loose", None, "pending"),
        ("webhooks.ordered", "k", "waiting"),
    ]


async def test_a_delivery_has_the_fields_of_the_call(database: Database) -> None:
    await add(database, "one")
    cause = uuid4()
    await database.fetch(
        "select inboxd.send_webhook('a.b', tenant => 't', entity_type => 'user', entity_id => '3',"
        " correlation_id => 'c', causation_id => $1, traceparent => 'tp',"
        " occurred_at => '2026-02-03 04:05:06.7+02', run_at => '2030-01-01T00:00Z')",
        cause,
    )
    (row,) = await deliveries(database)
    names = ("tenant", "entity_type", "entity_id", "correlation_id", "causation_id", "traceparent")
    assert [row[name] for name in names] == ["t", "user", "3", "c", cause, "tp"]
    assert row["payload"]["timestamp"] == "2026-02-03T02:05:06.700000Z"
    assert (row["run_at"].year, row["origin_kind"]) == (2030, "api")


async def test_a_webhook_commits_with_the_senders_transaction(database: Database) -> None:
    await add(database, "one")
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.fetch(SEND, "a.b", "{}")
        await transaction.rollback()
    assert await deliveries(database) == []


@pytest.mark.safety
async def test_a_message_id_is_delivered_once(database: Database) -> None:
    await add(database, "one")
    (first,) = await database.fetch(CHOSEN, "m1")
    (second,) = await database.fetch(CHOSEN, "m1")
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert (second["id"], second["command_id"]) == (first["id"], first["command_id"])
    await add(database, "two")
    rows = await database.fetch(CHOSEN, "m1")
    assert [(row["to_endpoint"], row["duplicate"]) for row in rows] == [
        ("one", True),
        ("two", False),
    ]
    assert len({row["command_id"] for row in rows}) == 2
    assert len(await deliveries(database)) == 2


async def test_a_message_id_is_known_after_its_delivery_is_settled(database: Database) -> None:
    await add(database, "one")
    (first,) = await database.fetch(CHOSEN, "m1")
    await _settle(database)
    (second,) = await database.fetch(CHOSEN, "m1")
    assert second["duplicate"]
    assert (second["id"], second["command_id"]) == (None, first["command_id"])
    assert await deliveries(database) == []


async def test_a_sender_of_the_same_id_waits_for_the_other(database: Database) -> None:
    """Even if the other one's delivery is settled before the wait ends."""
    await add(database, "one")
    answers: list[asyncpg.Record] = []

    async def send() -> None:
        answers.extend(await database.fetch(CHOSEN, "m1"))

    async with (
        anyio.create_task_group() as tasks,
        database.connect() as connection,
        connection.transaction(),
    ):
        await connection.fetch(CHOSEN, "m1")
        tasks.start_soon(send)
        await lock_awaited(database)
        await _settle(connection)
    assert [row["duplicate"] for row in answers] == [True]
    assert await deliveries(database) == []


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_snapshot_older_than_the_other_delivery_sends_no_second_one(
    database: Database, level: str
) -> None:
    """It sees the other delivery neither unsettled nor in history: the index refuses."""
    await add(database, "one")
    async with database.connect() as connection:
        await connection.execute(f"begin isolation level {level}")
        await connection.fetch("select 1 from inboxd.controls")
        await database.fetch(CHOSEN, "m1")
        await _settle(database)
        with pytest.raises(asyncpg.SerializationError):
            await connection.fetch(CHOSEN, "m1")
        await connection.execute("rollback")
        rows = await connection.fetch(CHOSEN, "m1")
    with safety():
        assert [row["duplicate"] for row in rows] == [True]
        assert await _delivered(database) == {"m1": 1}


async def test_a_delivery_settled_while_it_is_sent_again_is_not_repeated(
    database: Database,
) -> None:
    """The page waits for a row written by hand, with a snapshot from before."""
    await add(database, "one")
    await database.fetch(CHOSEN, "m1")
    given = json.dumps([{"type": "a.b", "message_id": each} for each in ("m0", "m1")])
    answers: list[asyncpg.Record] = []

    async def send() -> None:
        answers.extend(await database.fetch("select * from inboxd.send_webhooks($1)", given))

    async with anyio.create_task_group() as tasks, database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(
            "insert into inboxd.commands (command_id, queue, type)"
            " values (inboxd.delivery_id('m0', 'one'), 'webhooks.one', 'webhook.deliver')"
        )
        tasks.start_soon(send)
        await lock_awaited(database)
        await _settle(database)
        await transaction.rollback()
    with safety():
        assert [row["duplicate"] for row in answers] == [False, True]
        assert await _delivered(database) == {"m0": 1, "m1": 1}


async def test_concurrent_senders_and_deliveries_write_each_message_once(
    database: Database,
) -> None:
    await add(database, "one")
    await add(database, "two")
    ids = [f"m{number}" for number in range(30)]
    sending = 3

    async def send(order: int) -> None:
        nonlocal sending
        async with database.connect() as connection:
            for turn in range(4):
                page = ids[::order] if turn % 2 else ids
                given = json.dumps([{"type": "a.b", "message_id": each} for each in page])
                await connection.fetch("select * from inboxd.send_webhooks($1)", given)
        sending -= 1

    async def deliver() -> None:
        while sending:
            await _settle(database)

    async with anyio.create_task_group() as tasks:
        for order in (1, -1, -1):
            tasks.start_soon(send, order)
        tasks.start_soon(deliver)
    with safety():
        assert await _delivered(database) == dict.fromkeys(ids, 2)


async def test_bulk_answers_in_the_order_given(database: Database) -> None:
    await add(database, "one", "a.*")
    await add(database, "two", "a.b", ordered=True)
    given = [
        {"type": "a.b", "payload": {"n": 1}, "message_id": "m1", "ordering_key": "k"},
        {"type": "nobody.gets", "payload": {"n": 2}},
        {"type": "a.c"},
        {"type": "a.b", "message_id": "m1"},
    ]
    rows = await database.fetch("select * from inboxd.send_webhooks($1)", json.dumps(given))
    assert [(row["ordinal"], row["endpoint"], row["duplicate"]) for row in rows] == [
        (1, "one", False),
        (1, "two", False),
        (3, "one", False),
        (4, "one", True),
        (4, "two", True),
    ]
    sent = await deliveries(database)
    assert len(sent) == 3
    assert sent[1]["payload"]["data"] == {}
    assert await database.fetch("select * from inboxd.send_webhooks('[]')") == []


async def test_an_unknown_key_is_refused(database: Database) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="item 1 has the unknown key tena"):
        await database.fetch(
            """select * from inboxd.send_webhooks('[{"type": "a.b", "tena": 1}]')"""
        )


@pytest.mark.parametrize("message_id", ["", "a.1", "with space", "é", "x" * 256, "a\nb"])
async def test_a_message_id_that_cannot_be_signed_is_refused(
    database: Database, message_id: str
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="the message id"):
        await database.fetch(CHOSEN, message_id)


@pytest.mark.parametrize("type_", [None, "", "x" * 256])
async def test_a_webhook_needs_a_type(database: Database, type_: str | None) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="a webhook of the type"):
        await database.fetch(SEND, type_, "{}")


async def test_a_large_payload_is_stored_apart(database: Database) -> None:
    await add(database, "one")
    text = "".join(uuid4().hex for _ in range(2000))
    await database.fetch(SEND, "a.b", json.dumps({"text": text}))
    (row,) = await database.fetch("select payload, body_id, body_bytes from inboxd.commands")
    assert row["payload"] is None
    assert row["body_id"] is not None
    kept = await database.fetchval("select payload -> 'data' ->> 'text' from inboxd.bodies")
    assert kept == text


async def test_a_producer_sends_and_reads_no_secret(database: Database) -> None:
    await add(database, "one")
    async with database.connect() as connection:
        await connection.execute("set role inboxd_producer")
        assert len(await connection.fetch(SEND, "a.b", "{}")) == 1
        assert (
            len(await connection.fetch("""select * from inboxd.send_webhooks('[{"type": "a"}]')"""))
            == 1
        )
        for denied in (
            "select secrets from inboxd.endpoints",
            "select name from inboxd.endpoints",
            "select * from inboxd.write_webhooks(array['a'], array['{}']::jsonb[])",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch(denied)


async def _delivered(database: Database) -> dict[str, int]:
    """The number of rows of each message, unsettled or settled."""
    rows = await database.fetch(
        "select payload ->> 'id' as id, count(*) from (select payload from inboxd.commands"
        " union all select payload from inboxd.commands_history) as all_of group by 1"
    )
    return {row["id"]: row["count"] for row in rows}


async def _settle(where: "Database | asyncpg.Connection") -> None:
    """Settle deliveries as a worker does: into history, in one transaction."""
    await where.execute(
        "update inboxd.commands set status = 'running', worker_id = command_id, fence = fence + 1"
    )
    await where.fetch(
        "select inboxd.settle_command(id, fence, worker_id, 0.1) from inboxd.commands"
        " where status = 'running'"  # not those sent meanwhile
    )
