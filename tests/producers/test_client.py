"""`inboxd.client` on every kind of connection: in one transaction with the producer's own rows."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from inspect import iscoroutine
from typing import ClassVar
from uuid import UUID, uuid4

import anyio
import anyio.to_thread
import asyncpg
import pytest
from pydantic import BaseModel

from inboxd.api.connection import BlockingConnection
from inboxd.client import Inbox, NewCommand, NewEvent, NewStep
from inboxd.client.pages import PAGE_CHARACTERS
from inboxd.errors import UsageError
from inboxd.model.row_columns import CommandFields, EventFields
from inboxd.store.handler_connection import LazyConnection
from tests.producers.conftest import Producer, settled
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.waiting import patient

inbox = Inbox()
LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.anyio
async def test_committed_rows_are_there(producer: Producer, database: Database) -> None:
    cause = uuid4()
    event = await settled(
        inbox.emit(
            producer.connection,
            "activity.created",
            {"activity_id": 7, "title": "Olá 🎒"},
            topic="school",
            schema_version=2,
            source="api",
            tenant="t1",
            entity_type="activity",
            entity_id="7",
            headers={"x": "y"},
            correlation_id="story",
            causation_id=cause,
            traceparent="00-ab-cd-01",
            occurred_at=LATER,
            run_at=LATER,
        )
    )
    command = await settled(
        inbox.send(
            producer.connection,
            "school.mail",
            [1, 2],
            queue="email",
            priority=-3,
            max_attempts=4,
            deadline=LATER,
            tenant="t1",
        )
    )
    await settled(producer.commit())
    (row,) = await database.fetch("SELECT * FROM inboxd.events")
    assert (row["id"], row["event_id"], event.duplicate) == (event.id, event.event_id, False)
    assert json.loads(row["payload"]) == {"activity_id": 7, "title": "Olá 🎒"}
    assert [row[name] for name in ("topic", "type", "schema_version", "source", "tenant")] == [
        "school",
        "activity.created",
        2,
        "api",
        "t1",
    ]
    assert (row["entity_type"], row["entity_id"]) == ("activity", "7")
    assert json.loads(row["headers"]) == {"x": "y"}
    assert (row["correlation_id"], row["causation_id"]) == ("story", cause)
    assert (row["traceparent"], row["occurred_at"], row["run_at"]) == ("00-ab-cd-01", LATER, LATER)
    (row,) = await database.fetch("SELECT * FROM inboxd.commands")
    assert (row["id"], row["command_id"]) == (command.id, command.command_id)
    assert (row["queue"], row["priority"], row["max_attempts"]) == ("email", -3, 4)
    assert (row["deadline"], row["payload"], row["tenant"]) == (LATER, "[1, 2]", "t1")


@pytest.mark.anyio
async def test_rolled_back_rows_are_not_there(producer: Producer, database: Database) -> None:
    await settled(inbox.emit(producer.connection, "a.b"))
    await settled(inbox.send_many(producer.connection, [NewCommand("a.b"), NewCommand("a.c")]))
    await settled(producer.rollback())
    count = "SELECT (SELECT count(*) FROM inboxd.events) + (SELECT count(*) FROM inboxd.commands)"
    assert await database.fetchval(count) == 0


@pytest.mark.anyio
async def test_rows_of_a_bulk_call_keep_their_order(producer: Producer, database: Database) -> None:
    given = (NewEvent("a.b", {"n": n}, tenant="x" if n % 2 else None) for n in range(2500))
    receipts = await settled(inbox.emit_many(producer.connection, given))
    await settled(producer.commit())
    rows = await database.fetch(
        "SELECT id, event_id, payload, tenant FROM inboxd.events ORDER BY id"
    )
    assert [(row["id"], row["event_id"], False, False) for row in rows] == receipts
    assert [json.loads(row["payload"])["n"] for row in rows] == list(range(2500))
    assert [row["tenant"] for row in rows[:2]] == [None, "x"]


@pytest.mark.anyio
async def test_duplicates_are_reported_and_not_written(
    producer: Producer, database: Database
) -> None:
    known, twice = uuid4(), uuid4()
    first = await settled(inbox.emit(producer.connection, "a.b", {"n": 1}, event_id=known))
    again = await settled(inbox.emit(producer.connection, "a.b", {"n": 2}, event_id=known))
    assert again == (first.id, known, True, False)
    drafts = [
        NewCommand("a.b", command_id=twice),
        NewCommand("a.c"),
        NewCommand("a.d", command_id=twice),
    ]
    one, two, three = await settled(inbox.send_many(producer.connection, drafts))
    assert [each.duplicate for each in (one, two, three)] == [False, False, True]
    assert (one.id, one.command_id) == (three.id, twice)
    await settled(producer.commit())
    assert await database.fetchval("SELECT payload FROM inboxd.events") == '{"n": 1}'
    assert await database.fetchval("SELECT count(*) FROM inboxd.commands") == 2


@pytest.mark.anyio
async def test_an_empty_bulk_call_writes_nothing(producer: Producer) -> None:
    assert await settled(inbox.emit_many(producer.connection, [])) == []
    assert await settled(inbox.send_many(producer.connection, iter([]))) == []


class Model(BaseModel):
    """A payload as services define it."""

    at: datetime
    price: Decimal
    note: str | None = None


@dataclass
class Plain:
    """A payload that is a plain dataclass."""

    key: UUID
    tags: frozenset[str]
    inner: Model


@pytest.mark.anyio
async def test_payloads_of_every_class_are_encoded(database: Database) -> None:
    key, model = uuid4(), Model(at=LATER, price=Decimal("1.10"))
    payloads = [
        None,
        model,
        Plain(key, frozenset({"x"}), model),
        {"day": date(2030, 1, 1), "n": 2**70, "text": "\\u0000 is only text", "null": None},
    ]
    async with database.connect() as connection:
        await inbox.emit_many(connection, [NewEvent("a.b", payload) for payload in payloads])
    rows = await database.fetch("SELECT payload FROM inboxd.events ORDER BY id")
    stored = [json.loads(row["payload"]) for row in rows]
    assert stored[0] == {}
    assert stored[1] == {"at": "2030-01-01T00:00:00Z", "price": "1.10", "note": None}
    assert stored[2]["key"] == str(key)
    assert stored[2]["tags"] == ["x"]
    assert stored[2]["inner"]["price"] == "1.10"
    assert stored[3] == {
        "day": "2030-01-01",
        "n": 2**70,
        "text": "\\u0000 is only text",
        "null": None,
    }


@pytest.mark.anyio
@pytest.mark.parametrize("producer", ["asyncpg", "psycopg"], indirect=True)
@pytest.mark.long
async def test_a_payload_of_50_mb_arrives(producer: Producer, database: Database) -> None:
    receipt = await settled(inbox.emit(producer.connection, "a.b", {"blob": "x" * 50_000_000}))
    await settled(producer.commit())
    found = await database.fetchval(
        "SELECT octet_length(b.payload ->> 'blob') FROM inboxd.events e "
        "JOIN inboxd.bodies b ON b.id = e.body_id AND b.created_at = e.body_at WHERE e.id = $1",
        receipt.id,
    )
    assert found == 50_000_000


@pytest.mark.anyio
async def test_a_page_is_bounded_by_its_bytes_and_read_shortly_before_it_is_sent(
    database: Database,
) -> None:
    alive = 0
    most = 0

    def large() -> Iterator[NewEvent]:
        nonlocal alive, most
        for _ in range(6):
            alive += 1
            most = max(most, alive)
            yield NewEvent("a.b", {"blob": "x" * PAGE_CHARACTERS})

    class Watching(asyncpg.Connection):
        async def fetch(self, query: str, *args: object) -> list[asyncpg.Record]:  # type: ignore[override]
            nonlocal alive
            found: list[asyncpg.Record] = await super().fetch(query, *args)
            alive -= 1
            return found

    connection = await asyncpg.connect(database.dsn, connection_class=Watching)
    assert len(await inbox.emit_many(connection, large())) == 6
    await connection.close()
    assert most <= 3


@pytest.mark.anyio
async def test_a_codec_of_the_callers_own_does_not_matter(database: Database) -> None:
    async with database.connect() as connection:
        await connection.set_type_codec(
            "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
        )
        await inbox.emit(connection, "a.b", {"n": 1})
        assert await connection.fetchval("SELECT payload FROM inboxd.events") == {"n": 1}


@pytest.mark.anyio
async def test_a_bad_row_on_a_later_page_leaves_the_connection_usable(database: Database) -> None:
    def drafts() -> Iterator[NewEvent]:
        yield from (NewEvent("a.b", {"n": n}) for n in range(1500))
        yield NewEvent("a.b", tenant="\0")

    async with database.connect() as connection:
        async with connection.transaction():
            with pytest.raises(UsageError, match="event 1500: tenant has a NUL"):
                async with connection.transaction():
                    await inbox.emit_many(connection, drafts())
            await inbox.emit(connection, "a.c")
        assert await connection.fetchval("SELECT count(*) FROM inboxd.events") == 1


@pytest.mark.anyio
async def test_a_bad_row_costs_no_transaction(database: Database) -> None:
    def drafts() -> Iterator[NewEvent]:
        yield from (NewEvent("a.b", {"n": n}) for n in range(1000))
        yield NewEvent("a.b", tenant="\0")  # found while the page before it is in flight

    async with database.connect() as connection, connection.transaction():
        with pytest.raises(UsageError, match="event 1000"):
            await inbox.emit_many(connection, drafts())
        assert await connection.fetchval("SELECT count(*) FROM inboxd.events") == 1000


@pytest.mark.anyio
async def test_a_cancelled_call_leaves_the_connection_usable(database: Database) -> None:
    async with database.connect() as connection, database.connect() as blocker:
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE inboxd.events")
            async with anyio.create_task_group() as group:
                group.start_soon(inbox.emit_many, connection, [NewEvent("a.b")] * 3000)
                await lock_awaited(database)
                group.cancel_scope.cancel()
        await inbox.emit(connection, "a.c")
        assert await connection.fetchval("SELECT count(*) FROM inboxd.events") == 1


@pytest.mark.anyio
async def test_async_connections_are_awaited_and_pools_refused(database: Database) -> None:
    async with asyncpg.create_pool(database.dsn, min_size=1, max_size=1) as pool:
        with pytest.raises(UsageError, match=r"asyncpg\.pool\.Pool is not a connection"):
            await inbox.emit(pool, "a.b")
        async with pool.acquire() as connection:
            answer = inbox.emit(connection, "a.b")
            assert iscoroutine(answer)
            await answer


@pytest.mark.parametrize("schema", ["", "In box", "inboxd; DROP", "Inboxd"])
def test_a_schema_name_is_checked(schema: str) -> None:
    with pytest.raises(UsageError, match="not a valid schema name"):
        Inbox(schema)


def test_keywords_are_the_drafts_fields() -> None:
    events, commands = NewEvent.__dataclass_fields__, NewCommand.__dataclass_fields__
    assert ["type", "payload", *EventFields.__annotations__] == list(events)
    assert ["type", "payload", *CommandFields.__annotations__] == list(commands)


def test_the_client_imports_only_the_standard_library() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); "
        "import inboxd.client; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - sys.stdlib_module_names))"
    )
    root = str(__import__("inboxd").__path__[0]).removesuffix("/inboxd")
    # -I -S: without site-packages a third-party import would fail as well.
    run = [sys.executable, "-I", "-S", "-c", program, root]
    answer = subprocess.run(run, capture_output=True, text=True, check=True, timeout=patient(60))
    assert answer.stdout.strip() == "['inboxd']"


@pytest.mark.anyio
async def test_a_handlers_own_connection_can_be_used(database: Database) -> None:
    async with database.connect() as driver:

        async def opened() -> asyncpg.Connection:
            return driver

        connection = LazyConnection(opened)
        await inbox.emit(connection, "a.b")
        blocking = BlockingConnection(connection)
        receipts = await anyio.to_thread.run_sync(
            lambda: inbox.emit_many(blocking, [NewEvent("a.c"), NewEvent("a.d")])
        )
    rows = await database.fetch("SELECT id FROM inboxd.events ORDER BY id")
    assert [row["id"] for row in rows[1:]] == [each.id for each in receipts]


class Paid(BaseModel):
    """An event class that names its type and version."""

    inboxd_event: ClassVar[str] = "order.paid"
    inboxd_version: ClassVar[int] = 3

    order_id: int


@dataclass
class Mail:
    """A command class that names its type."""

    inboxd_command: ClassVar[str] = "shop.mail"

    to: str


@pytest.mark.anyio
async def test_a_payload_that_names_its_type_needs_no_type(
    producer: Producer, database: Database
) -> None:
    connection, mail = producer.connection, Mail("ada")
    await settled(inbox.emit(connection, Paid(order_id=1), tenant="t1"))
    given: list[Paid | NewEvent] = [
        Paid(order_id=2),
        NewEvent(Paid(order_id=3), dedup_key="3"),
        NewEvent("a.b"),
    ]
    assert len(await settled(inbox.emit_many(connection, given))) == 3
    await settled(inbox.send(connection, mail, queue="q"))
    await settled(inbox.send_many(connection, [mail, NewCommand(mail, queue="q", priority=1)]))
    steps = [NewStep("one", NewCommand(mail, queue="q")), NewStep("two", mail, after="one")]
    await settled(inbox.send_workflow(connection, "both", steps, finally_=mail))
    await settled(inbox.send_batch(connection, "all", [mail], then=[mail]))
    await settled(producer.commit())
    events = await database.fetch(
        "SELECT type, schema_version, payload, tenant, dedup_key FROM inboxd.events ORDER BY id"
    )
    assert [tuple(row) for row in events] == [
        ("order.paid", 3, '{"order_id": 1}', "t1", None),
        ("order.paid", 3, '{"order_id": 2}', None, None),
        ("order.paid", 3, '{"order_id": 3}', None, "3"),
        ("a.b", 1, "{}", None, None),
    ]
    sent = await database.fetch("SELECT type, payload FROM inboxd.commands")
    assert {tuple(row) for row in sent} == {("shop.mail", '{"to": "ada"}')}
    assert len(sent) == 8


@pytest.mark.anyio
async def test_a_payload_whose_class_names_no_type_is_refused(database: Database) -> None:
    async with database.connect() as connection:
        with pytest.raises(UsageError, match="event 0: type must be a str, not Mail, whose class"):
            await inbox.emit(connection, Mail("ada"))  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="event 1 is a Mail: make it a NewEvent"):
            await inbox.emit_many(connection, [Paid(order_id=1), Mail("ada")])  # type: ignore[list-item]
        with pytest.raises(UsageError, match="command 0 is a dict: make it a NewCommand"):
            await inbox.send_batch(connection, "all", [{"to": "ada"}])  # type: ignore[list-item]
        with pytest.raises(UsageError, match="Paid: give the payload alone"):
            NewEvent(Paid(order_id=1), {"order_id": 1})  # type: ignore[call-overload]
    assert not await database.fetchval("SELECT count(*) FROM inboxd.events")
