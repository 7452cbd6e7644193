"""Receipts and their events are written once, together, and durably."""

from collections import Counter
from uuid import UUID

import anyio
import asyncpg
import pytest

from inboxd.store import receipts
from inboxd.store.connections import is_passing, is_refusal
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.receipts import receipt, receive, received, received_ago
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def rows(database: Database, table: str = "events") -> list[asyncpg.Record]:
    order = "id" if table == "events" else "receipt_id"
    return await database.fetch(f"select * from inboxd.{table} order by {order}")


async def test_receipt_is_stored_unchanged(database: Database) -> None:
    given = receipt(received(payload={"n": 1}))
    (stored,) = await receive(database, given)
    assert stored == ([given.events[0].event_id], "stored")
    (row,) = await rows(database, "receipts")
    for name in ("receipt_id", "source", "body", "content_type", "headers", "address", "key_id"):
        assert row[name] == getattr(given, name)
    assert (row["outcome"], row["event_ids"]) == ("stored", stored.event_ids)
    assert row["body_bytes"] == len(given.body)
    assert abs((row["received_at"] - given.received_at).total_seconds()) < 1


async def test_event_names_its_receipt(database: Database) -> None:
    full = received(
        "a.b",
        {"n": 1},
        topic="there",
        dedup_key="d",
        tenant="acme",
        entity_type="bet",
        entity_id="5",
        headers='{"h": 1}',
        traceparent="00-1",
    )
    given = receipt(full)
    await receive(database, given)
    (row,) = await rows(database)
    assert (row["origin_kind"], row["origin_id"]) == ("receipt", None)
    assert row["causation_id"] == given.receipt_id
    assert row["correlation_id"] == str(given.receipt_id)
    assert row["source"] == "psp"
    for name in ("type", "topic", "dedup_key", "tenant", "entity_type", "entity_id", "headers"):
        assert row[name] == getattr(full, name)
    assert row["traceparent"] == "00-1"
    assert row["payload"] == '{"n": 1}'
    (kept,) = await rows(database, "receipts")
    assert row["occurred_at"] == kept["received_at"]


async def test_answers_come_in_the_order_given(database: Database) -> None:
    page = [receipt(received(), received()) for _ in range(5)]
    page.reverse()
    answers = await receive(database, *page)
    assert answers == [([e.event_id for e in each.events], "stored") for each in page]
    assert await receive(database) == []
    nothing = receipt()
    nothing.events = []
    assert await receive(database, nothing) == [([], "stored")]


async def test_a_sequential_topic_gets_its_events_in_order(database: Database) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('t', 'sequential', 'me')"
    )
    page = [receipt(received(topic="t", ordering_key=f"k{n % 2}")) for n in range(6)]
    await receive(database, *page)
    found = await rows(database)
    assert [row["event_id"] for row in found] == [each.events[0].event_id for each in page]
    assert {row["status"] for row in found} == {"waiting"}


# ------------------------------------------------------------------------------------ duplicates


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_duplicate_is_answered_with_the_first_event(
    database: Database, at_once: bool
) -> None:
    first, again = (receipt(received(payload={"n": 1}, dedup_key="d")) for _ in range(2))
    pages = [[first, again]] if at_once else [[first], [again]]
    answers = [stored for page in pages for stored in await receive(database, *page)]
    ids = [first.events[0].event_id]
    assert answers == [(ids, "stored"), (ids, "duplicate")]
    assert len(await rows(database)) == 1
    # Each receipt has a row; the second one refers to the first one's body.
    kept = await rows(database, "receipts")
    assert [row["receipt_id"] for row in kept] == [first.receipt_id, again.receipt_id]
    assert [row["body"] for row in kept] == [first.body, None]
    assert kept[1]["body_bytes"] == len(again.body)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_contradiction_is_a_dead_letter(database: Database, at_once: bool) -> None:
    first, other, same = (receipt(received(payload={"n": n}, dedup_key="d")) for n in (1, 2, 2))
    pages = [[first, other, same]] if at_once else [[first], [other], [same]]
    answers = [stored for page in pages for stored in await receive(database, *page)]
    letter = [other.events[0].event_id]
    assert answers == [
        ([first.events[0].event_id], "stored"),
        (letter, "contradiction"),
        (letter, "contradiction"),
    ]
    assert [row["status"] for row in await rows(database)] == ["pending", "failed"]
    kept = await rows(database, "receipts")
    assert [row["body"] is None for row in kept] == [False, False, True]


async def test_an_array_is_written_as_a_whole(database: Database) -> None:
    """An event that exists already counts as written."""
    known = received(payload={"n": 1}, dedup_key="d")
    await receive(database, receipt(known))
    items = [received(payload={"n": n}, dedup_key=key) for n, key in ((1, "d"), (2, "e"))]
    (stored,) = await receive(database, receipt(*items))
    assert stored == ([known.event_id, items[1].event_id], "stored")
    assert len(await rows(database)) == 2


async def test_an_event_for_several_topics_is_one(database: Database) -> None:
    one = received(topic="a", dedup_key="d")
    two = received(topic="b", dedup_key="d")
    two.event_id = one.event_id
    (stored,) = await receive(database, receipt(one, two))
    assert stored == ([one.event_id], "stored")
    assert [row["topic"] for row in await rows(database)] == ["a", "b"]


async def test_page_with_an_invalid_event_is_not_written_at_all(database: Database) -> None:
    long = receipt(received(), received(tenant="x" * 256))
    with pytest.raises(asyncpg.CheckViolationError, match="tenant has 256 bytes"):
        await receive(database, receipt(), long)
    assert await rows(database) == await rows(database, "receipts") == []


# ---------------------------------------------------------------------------------------- broken


@pytest.mark.parametrize("mode", ["single", "sequential", "batch"])
async def test_broken_event_is_a_dead_letter_that_can_be_replayed(
    database: Database, mode: str
) -> None:
    await database.execute(
        f"insert into inboxd.topics (name, mode, source) values ('t', '{mode}', 'me')"
    )
    bad = receipt(received(payload="text", topic="t", dedup_key="d", broken="Broken: not JSON"))
    again = receipt(received(payload="text", topic="t", dedup_key="d", broken="Broken: not JSON"))
    assert [stored.outcome for stored in await receive(database, bad, again, receipt())] == [
        "broken",
        "duplicate",
        "stored",
    ]
    (dead,) = await database.fetch("select * from inboxd.events where topic = 't'")
    assert (dead["status"], dead["head"], dead["position"]) == ("failed", False, None)
    assert "Broken: not JSON" in dead["errors"]
    assert dead["fingerprint"] == "broken:bet.result"
    async with daemon_session(database) as session:
        await session.execute("replay_events", [dead["id"]], "me", None)
    (status,) = await database.fetch("select status from inboxd.events where topic = 't'")
    assert status[0] == ("pending" if mode == "single" else "waiting")


# ------------------------------------------------------------------------------------ idempotence


async def test_a_receipt_is_written_once(database: Database) -> None:
    """The same if its events have been settled meanwhile; new receipts of the page are written."""
    page = [receipt(received(dedup_key="d")), receipt(received(broken="Broken")), receipt()]
    first = await receive(database, *page[:2])
    await database.execute("delete from inboxd.events")
    assert (await receive(database, *page))[:2] == first
    assert [row["event_id"] for row in await rows(database)] == [page[2].events[0].event_id]
    twice = receipt()
    assert len(set(map(str, await receive(database, twice, twice)))) == 1


@pytest.mark.safety
async def test_receipt_written_by_two_sessions_is_written_once(database: Database) -> None:
    given = receipt(received(dedup_key="d"))
    answers: list[receipts.Stored] = []

    async def second() -> None:
        answers.extend(await receive(database, given))

    async with (
        daemon_session(database) as session,
        anyio.create_task_group() as tasks,
        session.transaction(),
    ):
        answers.extend(await receipts.write(session, [given]))
        tasks.start_soon(second)
        await lock_awaited(database)
    assert answers == [([given.events[0].event_id], "stored")] * 2
    assert len(await rows(database)) == len(await rows(database, "receipts")) == 1


@pytest.mark.safety
async def test_receipts_written_by_many_sessions_are_written_once(database: Database) -> None:
    pages = [receipt(received(dedup_key=str(n % 20))) for n in range(60)]
    found = Counter[UUID]()

    async def write(first: int) -> None:
        for at in range(first, 60, 10):
            for each in await receive(database, *pages[at : at + 15]):
                found.update(each.event_ids)

    async with anyio.create_task_group() as tasks:
        for first in range(0, 10, 3):
            tasks.start_soon(write, first)
    assert len(found) == len(await rows(database)) == 20
    kept = {row["receipt_id"] for row in await rows(database, "receipts")}
    assert kept == {each.receipt_id for each in pages}


# ---------------------------------------------------------------------------- days of other clocks


async def _days(database: Database) -> set[str]:
    """The days for which receipts have a partition."""
    found = await database.fetch(
        "select to_char(low, 'YYYY-MM-DD') from inboxd.every_partition where parent = 'receipts'"
    )
    return {row[0] for row in found}


@pytest.mark.parametrize("days", [366, 100, 3, -20, -366])
async def test_a_receipt_of_another_day_gets_its_partition(database: Database, days: int) -> None:
    """The receipt waited in a spool, the database is a restored one, or a clock is ahead."""
    given = [receipt(), received_ago(days), received_ago(days), receipt()]
    before = await _days(database)
    stored = await receive(database, *given)
    with safety():
        assert [each.outcome for each in stored] == ["stored"] * 4
        kept = {row["receipt_id"] for row in await rows(database, "receipts")}
        assert kept == {each.receipt_id for each in given}
        assert len(await rows(database)) == 4
        assert await receive(database, *given) == stored, "each receipt is written once"
    assert await _days(database) - before == {f"{given[1].received_at:%Y-%m-%d}"}


async def test_concurrent_sessions_make_each_day_once(database: Database) -> None:
    pages = [[received_ago(days) for days in (9, 7, 8, 7)] for _ in range(8)]
    async with anyio.create_task_group() as group:
        for page in pages:
            group.start_soon(receive, database, *page)
    with safety():
        assert len(await rows(database, "receipts")) == 32


async def test_a_receipt_of_another_year_is_refused(database: Database) -> None:
    """No wrong clock and no sender makes partitions without end."""
    old = receipt()
    old.receipt_id = UUID(int=7 << 76 | 2 << 62)  # a time in 1970
    before = await _days(database)
    for far in (old, received_ago(367), received_ago(-367)):
        with pytest.raises(asyncpg.DataError, match="more than a year from today") as refused:
            await receive(database, receipt(), far)
        assert is_refusal(refused.value)
    assert await rows(database) == []
    assert await _days(database) == before


async def test_detached_day_is_refused_and_detached_today_is_temporary(
    database: Database,
) -> None:
    await receive(database, old := received_ago(9))
    await database.execute(
        f"alter table inboxd.receipts detach partition inboxd.receipts_{old.received_at:%Y%m%d}"
    )
    with pytest.raises(asyncpg.DataError, match="is there, detached") as refused:
        await receive(database, received_ago(9))
    assert is_refusal(refused.value)
    today = receipt()
    await database.execute(
        f"alter table inboxd.receipts detach partition inboxd.receipts_{today.received_at:%Y%m%d}"
    )
    with pytest.raises(asyncpg.CheckViolationError) as waits:
        await receive(database, today)
    assert is_passing(waits.value)


async def test_empty_commit_is_as_durable_as_a_receipt(database: Database) -> None:
    async with daemon_session(database) as session:
        await session.connection.execute("set synchronous_commit = off")
        before = await session.connection.fetchval("select pg_current_wal_flush_lsn()::text")
        await receipts.commit(session)
        flushed = "select pg_current_wal_flush_lsn() > $1::text::pg_lsn"
        assert await session.connection.fetchval(flushed, before)
        assert await session.connection.fetchval("show synchronous_commit") == "off"


# ------------------------------------------------------------------------------------ durability


@pytest.mark.parametrize(
    ("given", "used"),
    [
        *(("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on")),
        ("remote_apply", "remote_apply"),
    ],
)
async def test_answered_receipts_are_durable(database: Database, given: str, used: str) -> None:
    await database.execute(f"alter database {database.name} set synchronous_commit = {given}")
    async with daemon_session(database) as session:
        assert await session.connection.fetchval("show synchronous_commit") == given
        async with session.transaction():
            await receipts.write(session, [receipt()])
            assert await session.connection.fetchval("show synchronous_commit") == used
        assert await session.connection.fetchval("show synchronous_commit") == given


@pytest.mark.parametrize("given", ["off", "local", "on"])
async def test_repeated_answer_waits_for_standbys_too(database: Database, given: str) -> None:
    """The first session may have ended while it waited, so the row may be on this server alone."""
    one = receipt(received(payload={"n": 1}))
    (stored,) = await receive(database, one)
    async with daemon_session(database) as session:
        await session.connection.execute(f"set synchronous_commit = {given}")
        async with session.transaction():
            (row,) = await session.fetch("answered", [one.receipt_id])
            # A transaction without writes has no id, and waits for no standby.
            written = await session.connection.fetchval(
                "select pg_current_xact_id_if_assigned()::text"
            )
            waits = await session.connection.fetchval("show synchronous_commit")
        with safety():
            assert (row["event_ids"], row["outcome"]) == stored
            assert (written is not None, waits) == (True, "on")
            assert await receipts.write(session, [one]) == [stored]
