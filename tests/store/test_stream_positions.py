"""A page of messages is stored with its positions, once, whatever other readers do."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest

from inboxd.errors import LeaseLost
from inboxd.model.lineage import uuid7
from inboxd.model.message import ReceivedMessage
from inboxd.model.receipt import ReceivedEvent
from inboxd.store import stream_positions as store
from inboxd.store.session import Session
from inboxd.store.stream_positions import OpenedStream, PageStored
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.messages import STREAM, received
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

ME, OTHER = uuid4(), uuid4()


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Session]:
    async with daemon_session(database) as session:
        yield session


async def _open(session: Session, stream: str = STREAM, worker: UUID = ME) -> OpenedStream:
    return await store.open_stream(session, "source", stream, worker)


async def _store(session: Session, opened: OpenedStream, *positions: int | None) -> PageStored:
    page = [received(position) for position in positions]
    return await store.store(session, "source", page, [opened])


async def _store_one(
    session: Session, opened: OpenedStream, message: ReceivedMessage
) -> PageStored:
    message.stream = opened.stream
    return await store.store(session, "source", [message], [opened])


async def _stored(database: Database) -> list[int | None]:
    rows = await database.fetch("select (payload ->> 'n')::bigint from inboxd.events order by 1")
    return [row[0] for row in rows]


async def _position(database: Database) -> int | None:
    found: int | None = await database.fetchval("select position from inboxd.stream_positions")
    return found


async def test_events_and_positions_are_stored_together(
    database: Database, session: Session
) -> None:
    opened = await _open(session)
    assert (opened.position, opened.identity, opened.begins) == (None, "", None)
    assert await _store(session, opened, 5, 6, 9) == PageStored(3, 0, 0, 0)
    again = await _open(session)
    assert (again.position, again.identity) == (9, "i-1")
    assert await _stored(database) == [5, 6, 9]
    (row, *_) = await database.fetch("select source, status, topic from inboxd.events")
    assert tuple(row) == ("source", "pending", "default")


async def test_event_has_all_fields_of_its_message(database: Database, session: Session) -> None:
    event = ReceivedEvent(
        uuid7(),
        "match.result",
        '{"n": 1}',
        topic="matches",
        ordering_key="m-1",
        dedup_key="d-1",
        tenant="acme",
        entity_type="match",
        entity_id="1",
        headers='{"ce-id": "7"}',
        traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
    )
    message = received(1, event)
    message.correlation_id, message.causation_id = "story", uuid4()
    message.occurred_at = datetime(2026, 11, 5, 12, tzinfo=UTC)
    message.schema_version = 2
    await store.store(session, "source", [message], [await _open(session)])
    (row,) = await database.fetch("select * from inboxd.events")
    for name in ("event_id", "type", "topic", "ordering_key", "dedup_key", "tenant", "headers"):
        assert row[name] == getattr(event, name), name
    for name in ("entity_type", "entity_id", "traceparent"):
        assert row[name] == getattr(event, name), name
    for name in ("correlation_id", "causation_id", "occurred_at", "schema_version"):
        assert row[name] == getattr(message, name), name
    assert row["origin_kind"] is None, "a producer wrote the event"


async def test_a_later_reader_shuts_out_an_earlier_one(
    database: Database, session: Session
) -> None:
    first = await _open(session)
    await _store(session, first, 1)
    second = await _open(session, worker=OTHER)
    with pytest.raises(LeaseLost, match="source 'source'"):
        await _store(session, first, 2)
    assert await _position(database) == 1
    await _store(session, second, 2)
    assert await _stored(database) == [1, 2]


async def test_page_with_a_lost_stream_is_not_stored_at_all(
    database: Database, session: Session
) -> None:
    ours, taken = await _open(session, "t/0"), await _open(session, "t/1")
    await _open(session, "t/1", OTHER)
    page = [received(1, stream="t/0"), received(1, stream="t/1")]
    with pytest.raises(LeaseLost):
        await store.store(session, "source", page, [ours, taken])
    assert await _stored(database) == []
    positions = await database.fetch("select position from inboxd.stream_positions")
    assert [row["position"] for row in positions] == [None, None]


async def test_concurrent_reader_stores_first_or_not_at_all(
    database: Database, session: Session
) -> None:
    """The later reader opens during a page of the earlier one, and reads the position after it."""
    first = await _open(session)
    async with daemon_session(database) as other, anyio.create_task_group() as group:
        transaction = session.transaction()
        await transaction.start()
        await _store(session, first, 1, 2)
        opened: list[OpenedStream] = []

        async def take_over() -> None:
            opened.append(await _open(other, worker=OTHER))

        group.start_soon(take_over)
        await lock_awaited(database, query="%stream_positions%")
        await transaction.commit()
    assert opened[0].position == 2
    with pytest.raises(LeaseLost):
        await _store(session, first, 3)
    assert await _stored(database) == [1, 2]


async def test_two_readers_store_the_same_page_and_one_gets_an_error(
    database: Database,
) -> None:
    """Both readers have the same fence, as if one were a copy of the other."""
    async with daemon_session(database) as one, daemon_session(database) as two:
        first = await _open(one)
        second = OpenedStream(first.stream, first.position, first.identity, None, first.fence)
        outcomes: list[str] = []

        async def write(session: Session, opened: OpenedStream) -> None:
            try:
                await _store(session, opened, 1, 2, 3)
                outcomes.append("stored")
            except LeaseLost:
                outcomes.append("lost")

        async with anyio.create_task_group() as group:
            group.start_soon(write, one, first)
            group.start_soon(write, two, second)
    assert sorted(outcomes) == ["lost", "stored"]
    assert await _stored(database) == [1, 2, 3]


async def test_refused_page_does_not_move_the_position(
    database: Database, session: Session
) -> None:
    opened = await _open(session)
    await _store(session, opened, 1)
    bad = received(3, ReceivedEvent(uuid7(), "x" * 300, "{}"))
    with pytest.raises(asyncpg.CheckViolationError):
        await store.store(session, "source", [received(2), bad], [opened])
    assert opened.position == await _position(database) == 1
    await _store(session, opened, 2)
    assert await _stored(database) == [1, 2]


async def test_messages_of_a_rolled_back_page_are_stored_again(
    database: Database, session: Session
) -> None:
    opened = await _open(session)
    transaction = session.transaction()
    await transaction.start()
    await _store(session, opened, 1, 2)
    await transaction.rollback()
    again = await _open(session)
    assert again.position is None
    await _store(session, again, 1, 2)
    assert await _stored(database) == [1, 2]


async def test_a_broken_message_is_a_dead_letter_at_once(
    database: Database, session: Session
) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('line', 'sequential', 'me')"
    )
    given = dict.fromkeys(("default", "line"), "the body is not JSON")
    events = [
        ReceivedEvent(uuid7(), "a", '"<x/>"', topic, broken=why) for topic, why in given.items()
    ]
    page = [received(1), received(2, *events), received(3)]
    answer = await store.store(session, "source", page, [await _open(session)])
    assert answer == PageStored(4, 0, 0, 2)
    rows = await database.fetch("select * from inboxd.events where status = 'failed'")
    assert {row["topic"] for row in rows} == {"default", "line"}
    assert {row["fingerprint"] for row in rows} == {"broken:a"}
    assert all("not JSON" in row["errors"] and row["payload"] == '"<x/>"' for row in rows)
    pending = await database.fetchval("select count(*) from inboxd.events where status = 'pending'")
    assert pending == 2, "the other messages of the page"


async def test_replayed_broken_message_stays_pending_when_it_comes_again(
    database: Database, session: Session
) -> None:
    opened = await _open(session)
    event = ReceivedEvent(uuid7(), "a", '"<x/>"', dedup_key="d", broken="not JSON")
    await store.store(session, "source", [received(None, event)], [opened])
    await database.execute("update inboxd.events set status = 'pending', errors = '[]'")
    answer = await store.store(session, "source", [received(None, event)], [opened])
    assert answer == PageStored(0, 1, 0, 0)
    assert await database.fetchval("select status from inboxd.events") == "pending"


async def test_without_positions_the_dedup_key_counts(database: Database, session: Session) -> None:
    opened = await _open(session)
    answers = []
    for n in (1, 1, 2):
        event = ReceivedEvent(uuid7(), "a", f'{{"n": {n}}}', dedup_key="d")
        answers += [await store.store(session, "source", [received(None, event)], [opened])]
    assert answers == [PageStored(1, 0, 0, 0), PageStored(0, 1, 0, 0), PageStored(1, 0, 1, 0)]
    statuses = await database.fetch("select status from inboxd.events order by id")
    assert [row["status"] for row in statuses] == ["pending", "failed"]
    assert await database.fetchval("select stored_at is not null from inboxd.stream_positions")


@pytest.mark.parametrize("pages", [1, 2])
async def test_id_used_twice_by_senders_loses_no_message(
    database: Database, session: Session, pages: int
) -> None:
    """The positions differ, so these are two messages, whatever id the senders gave them."""
    opened, id_ = await _open(session), uuid7()
    messages = []
    for position in (1, 2, 3):
        message = received(position, ReceivedEvent(id_, "a", f'{{"n": {position}}}', "one"))
        message.events.append(ReceivedEvent(id_, "a", f'{{"n": {position}}}', "two"))
        message.other_id = uuid7()
        messages.append(message)
    for page in [messages] if pages == 1 else [messages[:1], messages[1:]]:
        await store.store(session, "source", page, [opened])
    assert await _stored(database) == [1, 1, 2, 2, 3, 3]
    rows = await database.fetch("select event_id, count(*) from inboxd.events group by 1")
    assert {(row["event_id"], row["count"]) for row in rows} == {
        (id_, 2),
        (messages[1].other_id, 2),
        (messages[2].other_id, 2),
    }


@pytest.mark.parametrize("broken", [None, "not JSON"])
async def test_two_sources_that_store_one_id_at_once_lose_no_message(
    database: Database, broken: str | None
) -> None:
    """Two senders gave it, or two partitions have it: the later page sees the earlier event."""
    id_, others = uuid7(), (uuid7(), uuid7())
    stored: list[PageStored] = []

    def message(number: int) -> ReceivedMessage:
        event = ReceivedEvent(id_, "a", f'{{"n": {number}}}', broken=broken if number else None)
        found = received(1, event)
        found.other_id = others[number]
        return found

    async with daemon_session(database) as one, daemon_session(database) as two:
        first, second = await _open(one, "one/0"), await _open(two, "two/0")

        async def meet() -> None:
            stored.append(await _store_one(two, second, message(1)))

        async with anyio.create_task_group() as group:
            transaction = one.transaction()
            await transaction.start()
            stored.append(await _store_one(one, first, message(0)))
            group.start_soon(meet)
            await lock_awaited(database)
            await transaction.commit()
    rows = await database.fetch("select event_id, status from inboxd.events order by id")
    with safety():
        assert stored == [PageStored(1, 0, 0, 0), PageStored(1, 0, 0, int(broken is not None))]
        assert [row["event_id"] for row in rows] == [id_, others[1]]
        assert [row["status"] for row in rows] == ["pending", "failed" if broken else "pending"]


async def test_dedup_key_makes_one_event_of_two_readers_messages(database: Database) -> None:
    """The other id does not make another message of it."""
    id_ = uuid7()
    stored: list[PageStored] = []

    def message() -> ReceivedMessage:
        found = received(1, ReceivedEvent(id_, "a", "{}", dedup_key="d"))
        found.other_id = uuid7()
        return found

    async with daemon_session(database) as one, daemon_session(database) as two:
        first, second = await _open(one, "one/0"), await _open(two, "two/0")

        async def meet() -> None:
            stored.append(await _store_one(two, second, message()))

        async with anyio.create_task_group() as group:
            transaction = one.transaction()
            await transaction.start()
            stored.append(await _store_one(one, first, message()))
            group.start_soon(meet)
            await lock_awaited(database)
            await transaction.commit()
    with safety():
        assert stored == [PageStored(1, 0, 0, 0), PageStored(0, 1, 0, 0)]
        assert await database.fetchval("select count(*) from inboxd.events") == 1


async def test_dedup_key_has_priority_over_the_senders_id(
    database: Database, session: Session
) -> None:
    opened, id_ = await _open(session), uuid7()
    answers = []
    for n in (1, 1, 2):
        message = received(None, ReceivedEvent(id_, "a", f'{{"n": {n}}}', dedup_key="d"))
        message.other_id = uuid7()
        answers += [await store.store(session, "source", [message], [opened])]
    assert answers == [PageStored(1, 0, 0, 0), PageStored(0, 1, 0, 0), PageStored(1, 0, 1, 0)]
    statuses = await database.fetch("select status from inboxd.events order by id")
    assert [row["status"] for row in statuses] == ["pending", "failed"]


async def test_stream_begins_behind_the_messages_of_its_broker(
    database: Database, session: Session
) -> None:
    opened = await _open(session)
    await store.begin(session, "source", opened, 41, "i-1")
    assert (opened.position, opened.identity) == (41, "i-1")
    again = await _open(session)
    assert again.position == 41, "so messages that come while no reader runs are not lost"
    with pytest.raises(LeaseLost):
        await store.begin(session, "source", opened, 43, "i-1")
    await _store(session, again, 42)
    assert await _stored(database) == [42]


async def test_a_reader_learns_that_its_stream_has_moved(
    database: Database, session: Session
) -> None:
    kept, lost = await _open(session, "t/0"), await _open(session, "t/1")
    assert await store.moved(session, "source", [kept, lost]) == {}
    await _open(session, "t/1", OTHER)
    assert await store.moved(session, "source", [kept, lost]) == {"t/1": OTHER}
    await database.execute("delete from inboxd.stream_positions where stream = 't/0'")
    assert await store.moved(session, "source", [kept, lost]) == {
        "t/0": None,
        "t/1": OTHER,
    }


async def test_stored_page_is_durable_on_a_server_with_weaker_commits(
    database: Database, session: Session
) -> None:
    await session.connection.execute("set synchronous_commit = off")
    opened = await _open(session)
    async with session.transaction():
        await _store(session, opened, 1)
        assert await session.connection.fetchval("show synchronous_commit") == "on"
    await session.connection.execute("set synchronous_commit = 'remote_apply'")
    async with session.transaction():
        await _store(session, opened, 2)
        assert await session.connection.fetchval("show synchronous_commit") == "remote_apply"
