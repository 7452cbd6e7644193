"""Intakes beside producers, other declarations and old snapshots: each event is moved once."""

import json
from typing import Any

import anyio
import pytest

from inboxd.store import intakes, topics
from tests.store.declaring import AUDIT, LEDGER, REWARDS, announced, declare, emit, taker, told
from tests.support import Database
from tests.support.rows import daemon_session
from tests.support.waiting import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.safety]


async def test_move_waits_for_open_transactions_of_producers(database: Database) -> None:
    """One of them read the subscriptions before the declaration, and has been idle since."""
    async with daemon_session(database) as session, database.connect() as producer:
        transaction = producer.transaction()
        await transaction.start()
        await emit(producer, {"n": 0})
        await declare(session, [REWARDS], ("rewards", "a.b"))
        taking = taker(session)
        await taking.take()
        await emit(database, {"n": 1})
        await taking.take()
        assert {each.topics for each in taking.open} == {("rewards",)}
        assert taking.holds("rewards", "a.c")
        assert taking.holds("default", "a.b")
        await emit(producer, {"n": 2})  # the producer sees the declaration by now
        await transaction.commit()
        await taking.take()
        assert taking.open == []
    rows = await told(database, "topic", "payload")
    assert [(topic, json.loads(payload)["n"]) for topic, payload in rows] == [
        ("rewards", n) for n in (0, 1, 2)
    ]


async def test_events_of_an_old_snapshot_are_moved_later(database: Database) -> None:
    async with daemon_session(database) as session, database.connect() as producer:
        async with producer.transaction(isolation="repeatable_read"):
            await producer.fetch("select from inboxd.subscriptions")
            await declare(session, [REWARDS], ("rewards", "a.b"))
            taking = taker(session)
            await taking.take()
            assert taking.open == []
            await emit(producer, {"n": 1}, {"n": 2})
        for _ in range(6):
            await taking.take()
    assert await told(database, "topic", "status") == [("rewards", "waiting")] * 2


async def test_concurrent_workers_declare_and_move_at_once(database: Database) -> None:
    await emit(database, *[{"user": f"u{n % 3}", "n": n} for n in range(3_000)])

    async def live() -> None:
        async with daemon_session(database) as session:
            await declare(session, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "a.b"))
            taking = taker(session)
            await taking.take()
            while taking.open:
                await taking.take()

    with bounded():
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(live)
    rows = await told(database, "topic", "payload")
    assert [json.loads(p)["n"] for topic, p in rows if topic == "rewards"] == list(range(3_000))
    assert sum(topic == "audit" for topic, _ in rows) == 3_000


async def test_events_written_during_the_commit_of_a_declaration(database: Database) -> None:
    """Their ids are above the reserved ones, and below those of producers that see the topics."""
    pairs = [("rewards", "a.b"), ("ledger", "a.b")]
    await emit(database, {"n": 0})
    async with daemon_session(database) as session:
        found = await intakes.announce(session, [REWARDS, LEDGER], pairs)
        async with session.transaction():
            assert await intakes.hold(session, found)
            await topics.declare(session, [REWARDS, LEDGER], pairs)
            await intakes.open_(session, found)
            await emit(database, {"n": 1}, {"n": 2})
        await emit(database, {"n": 3})
        await taker(session).take()
    rows = await told(database, "topic", "payload")
    assert [(topic, json.loads(payload)["n"]) for topic, payload in rows] == [
        (topic, n) for topic in ("ledger", "rewards") for n in range(4)
    ]


async def test_second_declaration_of_a_topic_reserves_no_ids(database: Database) -> None:
    await emit(database, *[{"n": n} for n in range(1_500)])
    async with daemon_session(database) as session, daemon_session(database) as other:
        async with announced(other, [REWARDS], [("rewards", "a.b")]):
            await declare(session, [REWARDS], ("rewards", "a.b"))
            (there, *_) = await intakes.listed(session)
            assert await intakes.take(session, there) == 1_000
        await taker(session).take()
    assert [json.loads(p)["n"] for (p,) in await told(database, "payload")] == list(range(1_500))


async def test_topic_is_held_until_its_intake_is_complete(database: Database) -> None:
    """A reader that may take an id drawn after the declaration has read that the topic is held."""
    from inboxd.store import lines  # noqa: PLC0415

    await emit(database, {"n": 0})
    async with daemon_session(database) as session:
        before = await lines.read_horizon(session)
        async with announced(session, [REWARDS], [("rewards", "a.b")]):
            assert "rewards" in (await lines.read_horizon(session)).held
        await emit(database, {"n": 1})
        assert "rewards" in (await lines.read_horizon(session)).held
        await taker(session).take()
        assert (await lines.read_horizon(session)).held == frozenset()
    taken, after = (id_ for (id_,) in await told(database, "id"))
    assert before.newest < taken < after, "a reader with the older horizon cannot take it"


async def test_announcement_of_a_dead_worker_is_forgotten(database: Database) -> None:
    await emit(database, {})
    async with daemon_session(database) as session:
        found = await intakes.announce(session, [REWARDS], [("rewards", "a.b")])
        taking = taker(session)
        await taking.take()
        assert {each.opened for each in taking.open} == {None}
        assert await told(database, "topic") == [("default",)]
        await database.execute("update inboxd.intakes set announced_at = now() - interval '11 s'")
        for _ in range(6):
            await taking.take()
        assert taking.open == []
        assert not await intakes.hold(session, found), "a late worker must announce again"
        await declare(session, [REWARDS], ("rewards", "a.b"))
        await taking.take()
    assert await told(database, "topic") == [("rewards",)]


async def test_renewed_announcement_keeps_its_first_time(database: Database) -> None:
    """A worker that dies again and again before its declaration shows; open intakes are kept."""
    async with daemon_session(database) as session:
        await intakes.announce(session, [REWARDS], [("rewards", "a.b")])
        first = await database.fetchval("select max(declared_at) from inboxd.intakes")
        await database.execute("update inboxd.intakes set announced_at = now() - interval '11 s'")
        await intakes.announce(session, [REWARDS], [("rewards", "a.b")])
        await intakes.forget(session)
        assert await database.fetchval("select max(declared_at) from inboxd.intakes") == first
        await declare(session, [REWARDS], ("rewards", "a.b"))
        await database.execute("update inboxd.intakes set announced_at = now() - interval '11 s'")
        await intakes.forget(session)
        assert len(await intakes.listed(session)) == 2


async def test_events_stay_while_another_topic_is_announced(database: Database) -> None:
    await emit(database, {"user": "u"})
    async with daemon_session(database) as session:
        await declare(session, [REWARDS], ("rewards", "a.b"))
        async with announced(session, [AUDIT], [("audit", "a.b")]):
            await taker(session).take()
            assert await told(database, "topic") == [("default",)]
        await taker(session).take()
    assert await told(database, "topic") == [("audit",), ("rewards",)]


async def test_a_small_intake_does_not_wait_for_a_large_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await emit(database, *[{"user": "u"}] * 30)
    monkeypatch.setattr(intakes, "PAGE", 10)
    held = []
    async with daemon_session(database) as session:
        await declare(session, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "z.z"))
        taking = taker(session)

        async def take(*given: Any) -> int:
            held.append({topic for each in taking.open for topic in each.topics})
            return await real(*given)

        real = intakes.take
        monkeypatch.setattr(intakes, "take", take)
        await taking.take()
        assert taking.open == []
    assert held[0] == {"rewards", "audit"}
    assert held[-1] == {"rewards"}


async def test_move_gives_way_to_a_producer_with_the_same_keys(database: Database) -> None:
    """The move gives way and comes again later, so the producer does not fail by a deadlock."""
    keys = ["a", "b"]
    for key in keys:
        await emit(database, {}, dedup_key=key)
    async with daemon_session(database) as session, database.connect() as producer:
        await session.connection.execute("set lock_timeout = '1h'; set statement_timeout = '1h'")
        await declare(session, [AUDIT], ("audit", "a.b"))
        taking = taker(session)
        async with producer.transaction():
            await emit(producer, {}, dedup_key="b")
            with bounded():
                await taking.take()
            assert taking.taken == 0
            await emit(producer, {}, dedup_key="a")
        await taking.take()
    assert await told(database, "topic", "dedup_key") == [("audit", "b"), ("audit", "a")]
