"""Intakes beside producers, other declarations and old snapshots: nothing is missed or doubled."""

import json
from typing import Any

import anyio
import pytest

from inboxd.store import intakes, topics
from tests.store.declaring import AUDIT, LEDGER, REWARDS, announced, declare, emit, taker, told
from tests.support import Database
from tests.support.rows import SQL, daemon_session
from tests.support.waiting import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.safety]


async def test_who_writes_meanwhile_is_waited_for(database: Database) -> None:
    """Also one that had looked for topics before there were any, and who is idle in between."""
    async with daemon_session(database) as connection, database.connect() as producer:
        transaction = producer.transaction()
        await transaction.start()
        await emit(producer, {"n": 0})
        await declare(connection, [REWARDS], ("rewards", "a.b"))
        taking = taker(connection)
        await taking.take()
        await emit(database, {"n": 1})
        await taking.take()
        assert {each.topics for each in taking.open} == {("rewards",)}
        assert taking.holds("rewards", "a.c")
        assert taking.holds("default", "a.b")
        await emit(producer, {"n": 2})  # it sees the declaration by now
        await transaction.commit()
        await taking.take()
        assert taking.open == []
    rows = await told(database, "topic", "payload")
    assert [(topic, json.loads(payload)["n"]) for topic, payload in rows] == [
        ("rewards", n) for n in (0, 1, 2)
    ]


async def test_an_old_snapshot_is_taken_later(database: Database) -> None:
    async with daemon_session(database) as connection, database.connect() as producer:
        async with producer.transaction(isolation="repeatable_read"):
            await producer.fetch("select from inboxd.subscriptions")
            await declare(connection, [REWARDS], ("rewards", "a.b"))
            taking = taker(connection)
            await taking.take()
            assert taking.open == []
            await emit(producer, {"n": 1}, {"n": 2})
        for _ in range(6):
            await taking.take()
    assert await told(database, "topic", "status") == [("rewards", "waiting")] * 2


async def test_two_who_declare_and_take_at_once(database: Database) -> None:
    await emit(database, *[{"user": f"u{n % 3}", "n": n} for n in range(3_000)])

    async def live() -> None:
        async with daemon_session(database) as connection:
            await declare(connection, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "a.b"))
            taking = taker(connection)
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


async def test_what_is_written_while_the_declaration_commits(database: Database) -> None:
    """Its ids are above those that are reserved, and below those of whoever knows the topics."""
    pairs = [("rewards", "a.b"), ("ledger", "a.b")]
    await emit(database, {"n": 0})
    async with daemon_session(database) as connection:
        found = await intakes.announce(connection, SQL, [REWARDS, LEDGER], pairs)
        async with connection.transaction():
            assert await intakes.hold(connection, SQL, found)
            await topics.declare(connection, SQL, [REWARDS, LEDGER], pairs)
            await intakes.open_(connection, SQL, found)
            await emit(database, {"n": 1}, {"n": 2})
        await emit(database, {"n": 3})
        await taker(connection).take()
    rows = await told(database, "topic", "payload")
    assert [(topic, json.loads(payload)["n"]) for topic, payload in rows] == [
        (topic, n) for topic in ("ledger", "rewards") for n in range(4)
    ]


async def test_who_announced_as_well_and_comes_second_reserves_nothing(database: Database) -> None:
    await emit(database, *[{"n": n} for n in range(1_500)])
    async with daemon_session(database) as connection, daemon_session(database) as other:
        async with announced(other, [REWARDS], [("rewards", "a.b")]):
            await declare(connection, [REWARDS], ("rewards", "a.b"))
            (there, *_) = await intakes.listed(connection, SQL)
            assert await intakes.take(connection, SQL, there) == 1_000
        await taker(connection).take()
    assert [json.loads(p)["n"] for (p,) in await told(database, "payload")] == list(range(1_500))


async def test_nothing_arrives_for_readers_before_it_is_complete(database: Database) -> None:
    """Whoever may take an id that was drawn after the declaration has read that it is held."""
    from inboxd.store import lines  # noqa: PLC0415

    await emit(database, {"n": 0})
    async with daemon_session(database) as connection:
        before = await lines.read_horizon(connection, SQL)
        async with announced(connection, [REWARDS], [("rewards", "a.b")]):
            assert "rewards" in (await lines.read_horizon(connection, SQL)).held
        await emit(database, {"n": 1})
        assert "rewards" in (await lines.read_horizon(connection, SQL)).held
        await taker(connection).take()
        assert (await lines.read_horizon(connection, SQL)).held == frozenset()
    taken, after = (id_ for (id_,) in await told(database, "id"))
    assert before.newest < taken < after, "who has not looked since cannot take it"


async def test_an_announcement_of_somebody_who_died_is_forgotten(database: Database) -> None:
    await emit(database, {})
    async with daemon_session(database) as connection:
        found = await intakes.announce(connection, SQL, [REWARDS], [("rewards", "a.b")])
        taking = taker(connection)
        await taking.take()
        assert {each.opened for each in taking.open} == {None}
        assert await told(database, "topic") == [("default",)]
        await database.execute("update inboxd.intakes set announced_at = now() - interval '11 s'")
        for _ in range(6):
            await taking.take()
        assert taking.open == []
        assert not await intakes.hold(connection, SQL, found), "who comes late must begin anew"
        await declare(connection, [REWARDS], ("rewards", "a.b"))
        await taking.take()
    assert await told(database, "topic") == [("rewards",)]


async def test_an_announcement_that_is_renewed_shows_its_age(database: Database) -> None:
    """Whoever dies again and again before declaring it is seen; what is opened is not forgotten."""
    async with daemon_session(database) as connection:
        await intakes.announce(connection, SQL, [REWARDS], [("rewards", "a.b")])
        first = await database.fetchval("select max(declared_at) from inboxd.intakes")
        await database.execute("update inboxd.intakes set announced_at = now() - interval '11 s'")
        await intakes.announce(connection, SQL, [REWARDS], [("rewards", "a.b")])
        await intakes.forget(connection, SQL)
        assert await database.fetchval("select max(declared_at) from inboxd.intakes") == first
        await declare(connection, [REWARDS], ("rewards", "a.b"))
        await database.execute("update inboxd.intakes set announced_at = now() - interval '11 s'")
        await intakes.forget(connection, SQL)
        assert len(await intakes.listed(connection, SQL)) == 2


async def test_nothing_is_taken_while_another_topic_is_announced(database: Database) -> None:
    await emit(database, {"user": "u"})
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS], ("rewards", "a.b"))
        async with announced(connection, [AUDIT], [("audit", "a.b")]):
            await taker(connection).take()
            assert await told(database, "topic") == [("default",)]
        await taker(connection).take()
    assert await told(database, "topic") == [("audit",), ("rewards",)]


async def test_a_small_intake_does_not_wait_for_a_large_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await emit(database, *[{"user": "u"}] * 30)
    monkeypatch.setattr(intakes, "PAGE", 10)
    held = []
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "z.z"))
        taking = taker(connection)

        async def take(*given: Any) -> int:
            held.append({topic for each in taking.open for topic in each.topics})
            return await real(*given)

        real = intakes.take
        monkeypatch.setattr(intakes, "take", take)
        await taking.take()
        assert taking.open == []
    assert held[0] == {"rewards", "audit"}
    assert held[-1] == {"rewards"}


async def test_a_producer_with_the_same_keys_is_given_way(database: Database) -> None:
    """It waits for nobody, and is no victim of a deadlock; the page comes another time."""
    keys = ["a", "b"]
    for key in keys:
        await emit(database, {}, dedup_key=key)
    async with daemon_session(database) as connection, database.connect() as producer:
        await connection.execute("set lock_timeout = '1h'; set statement_timeout = '1h'")
        await declare(connection, [AUDIT], ("audit", "a.b"))
        taking = taker(connection)
        async with producer.transaction():
            await emit(producer, {}, dedup_key="b")
            with bounded():
                await taking.take()
            assert taking.taken == 0
            await emit(producer, {}, dedup_key="a")
        await taking.take()
    assert await told(database, "topic", "dedup_key") == [("audit", "b"), ("audit", "a")]
