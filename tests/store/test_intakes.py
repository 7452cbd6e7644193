"""Intakes: events from before a declaration go to its topics, once, in order, with their keys."""

import json
from uuid import uuid4

import asyncpg
import pytest

from inboxd.api.topics import Topic
from inboxd.daemon import declaring
from inboxd.daemon.declaring import WorkerDeclaration
from inboxd.store import intakes
from inboxd.store.session import Session
from inboxd.store.topics import ChangedMode
from tests.store.declaring import AUDIT, LEDGER, REWARDS, ROWS, declare, emit, taker, told
from tests.support import Database
from tests.support.plans import told as ran
from tests.support.plans import touched_by
from tests.support.rows import daemon_session, no_bounds

pytestmark = pytest.mark.anyio


KEYED = Topic(name="keyed", source="test", dedup_path=("order",))


async def test_each_topic_gets_each_event_once_in_order(database: Database) -> None:
    await emit(database, *[{"user": f"u{n % 3}", "n": n} for n in range(2_500)])
    before = await database.fetch("select event_id, created_at from inboxd.events order by id")
    async with daemon_session(database) as session:
        await declare(
            session,
            [REWARDS, AUDIT, LEDGER],
            *[("rewards", "a.b"), ("audit", "a.b"), ("ledger", "a.b")],
        )
        await emit(database, {"user": "u1", "n": 2_500})
        taking = taker(session)
        await taking.take()
        assert (taking.open, taking.taken) == ([], 2_500)
        await taking.take()
    rows = await database.fetch(ROWS)
    kinds = {"rewards": "waiting", "audit": "pending", "ledger": "waiting"}
    for topic, status in kinds.items():
        found = [row for row in rows if row["topic"] == topic]
        if topic != "audit":  # events of the mode single have no order
            assert [json.loads(row["payload"])["n"] for row in found] == list(range(2_501))
            assert {row["ordering_key"] for row in found} == {"u0", "u1", "u2"}
            assert [(row["event_id"], row["created_at"]) for row in found[:-1]] == [
                (row["event_id"], row["created_at"]) for row in before
            ]
        assert len(found) == 2_501
        assert {row["status"] for row in found} == {status}
    assert len(rows) == 3 * 2_501


async def test_types_of_one_topic_keep_their_order(database: Database) -> None:
    for n in range(6):
        await database.execute(
            "insert into inboxd.events (type, payload) values ($1, $2)",
            f"a.{n % 2}",
            f'{{"n":{n}}}',
        )
    async with daemon_session(database) as session:
        pairs = [("rewards", "a.0"), ("rewards", "a.1")]
        await declare(session, [REWARDS], *pairs)
        await taker(session).take()
    assert [json.loads(p)["n"] for (p,) in await told(database, "payload")] == list(range(6))


async def test_events_handled_in_default_stay(database: Database) -> None:
    ids = await emit(database, {}, {})
    async with daemon_session(database) as session:
        await declare(session, [REWARDS], ("rewards", "a.b"), ("default", "a.b"))
        await taker(session).take()
        assert await told(database, "id", "topic") == [(id_, "default") for id_ in ids]
        await declare(session, [AUDIT], ("audit", "a.b"))
        assert await intakes.listed(session) == [], "all events were handled"


async def test_events_that_name_a_topic_get_its_mode(database: Database) -> None:
    await emit(database, {"user": "u"}, {"user": "v"}, topic="rewards")
    await emit(database, {"user": "u"}, topic="rewards", ordering_key="given")
    large = {"user": "w", "text": "x" * 5_000}
    (kept,) = await emit(database, large, topic="rewards")
    body = await database.fetchval("select body_id from inboxd.events where id = $1", kept)
    assert body is not None
    async with daemon_session(database) as session:
        await declare(session, [REWARDS])
        await taker(session).take()
    found = await told(database, "mode", "status", "ordering_key", "body_id")
    assert [each[:3] for each in found] == [
        ("sequential", "waiting", key) for key in ("u", "v", "given", "w")
    ]
    assert found[-1][3] == body
    (after,) = await emit(database, {"user": "u"}, topic="rewards")
    assert (await told(database, "id"))[-1] == (after,)


async def test_a_dedup_key_moves_along_with_its_scope(database: Database) -> None:
    first, second = uuid4(), uuid4()
    await emit(database, {"n": 1}, event_id=first, dedup_key="k", source="shop")
    await emit(database, {"n": 2}, event_id=second, dedup_key="in between", source="shop")
    seen = await database.fetchval("select seen_at from inboxd.dedup where key = 'k'")
    async with daemon_session(database) as session:
        await declare(session, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "a.b"))
        again = await emit(database, {"n": 2}, dedup_key="in between", source="shop")
        assert len(again) == 1, "the topics did not have the key yet"
        await taker(session).take()
    assert await emit(database, {"n": 1}, dedup_key="k", source="shop") == []
    keys = await database.fetch(
        "select topic, key, event_id, seen_at from inboxd.dedup order by 1, 2"
    )
    assert [(row["topic"], row["key"]) for row in keys] == [
        *(("audit", "in between"), ("audit", "k")),
        *(("rewards", "in between"), ("rewards", "k")),
    ]
    assert {row["event_id"] for row in keys if row["key"] == "k"} == {first}
    assert {row["seen_at"] for row in keys if row["key"] == "k"} == {seen}
    ids = [event_id for _, event_id in await told(database, "topic", "event_id")]
    assert (ids.count(first), ids.count(second), len(ids)) == (2, 0, 4)
    repeats = await database.fetch(
        "select topic from inboxd.duplicates where event_id = $1", second
    )
    assert sorted(row["topic"] for row in repeats) == ["audit", "rewards"]


async def test_contradiction_becomes_a_dead_letter_in_its_topic(database: Database) -> None:
    await emit(database, {"n": 1}, dedup_key="k")
    async with daemon_session(database) as session:
        await declare(session, [REWARDS], ("rewards", "a.b"))
        await emit(database, {"n": 2}, dedup_key="k")
        await taker(session).take()
    found = await told(database, "payload", "status", "fingerprint")
    assert sorted((json.loads(p)["n"], status) for p, status, _ in found) == [
        (1, "failed"),
        (2, "waiting"),
    ]
    assert "dedup-conflict:a.b" in {fingerprint for *_, fingerprint in found}


async def test_declared_dedup_path_counts_for_waiting_events(database: Database) -> None:
    await emit(database, {"order": "7", "n": 1}, {"order": "7", "n": 1}, {"order": "8"}, {})
    async with daemon_session(database) as session:
        await declare(session, [KEYED], ("keyed", "a.b"))
        await taker(session).take()
        assert await emit(database, {"order": "8"}) == []
    assert sorted(str(key) for (key,) in await told(database, "dedup_key")) == ["7", "8", "None"]


async def test_event_that_the_topic_already_has_is_not_doubled(database: Database) -> None:
    event_id = uuid4()
    await emit(database, {}, event_id=event_id)
    async with daemon_session(database) as session:
        await declare(session, [REWARDS], ("rewards", "a.b"))
        (there,) = await emit(database, {}, event_id=event_id)
        await taker(session).take()
    assert await told(database, "id", "topic") == [(there, "rewards")]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("headers", {"a": "x" * 20_000}), ("headers", [])),
        *((name, "x" * 300) for name in ("entity_id", "source")),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
async def test_events_from_before_the_limits_are_moved(
    database: Database, column: str, value: object
) -> None:
    given = json.dumps(value) if column == "headers" else value
    async with no_bounds(database):
        await emit(database, {"user": "u"}, {"user": "v"}, **{column: given})
        await emit(database, {"user": "w"}, **{column: given}, dedup_key="k")
    async with daemon_session(database) as session:
        await declare(session, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "a.b"))
        taking = taker(session)
        await taking.take()
        assert taking.open == []
    assert sorted(await told(database, "topic")) == [("audit",)] * 3 + [("rewards",)] * 3
    with pytest.raises(asyncpg.CheckViolationError):
        await emit(database, {}, **{column: given})


async def test_limits_hold_for_other_writes_during_a_move(database: Database) -> None:
    """The limits hold for other writes in the transaction that moves events."""
    await emit(database, {})
    async with daemon_session(database) as session:
        await declare(session, [REWARDS], ("rewards", "a.b"))
        async with session.transaction():
            assert await session.fetchval("take_events", "default", "a.b", 10) == 1
            for size in ({"entity_id": "x" * 300}, {"headers": "[]"}):
                with pytest.raises(asyncpg.CheckViolationError):
                    await emit(database, {}, **size)


async def test_failing_intake_does_not_hold_up_others(database: Database) -> None:
    """A failing row does not hold up the rows before it, either."""
    await emit(database, *[{"n": n} for n in range(20)])
    await emit(database, {"poison": True})
    await database.execute(
        "insert into inboxd.events (type) values ('z.z');"
        "create function broken() returns trigger language plpgsql as"
        " 'begin raise exception ''broken'' using errcode = ''check_violation''; end';"
        "create trigger broken before insert on inboxd.events for each row"
        " when (new.payload ? 'poison') execute function broken()"
    )
    async with daemon_session(database) as session:
        await declare(session, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "z.z"))
        taking = taker(session)
        await taking.take()
        assert [each.topics for each in taking.open] == [("rewards",)]
        for _ in range(3):
            await taking.take()
        assert set(await told(database, "topic")) == {("audit",), ("default",), ("rewards",)}
        assert taking.taken >= 11
        await database.execute("drop trigger broken on inboxd.events")
        await taking.take()
        assert taking.open == []


async def test_failed_declaration_leaves_no_intakes(database: Database) -> None:
    class Broken(WorkerDeclaration):
        async def announce(self, session: Session) -> list[intakes.Intake]:
            return await intakes.announce(session, [REWARDS], [("rewards", "a.b")])

        async def make(self, session: Session) -> list[ChangedMode]:
            assert await session.connection.fetchval("select count(*) from inboxd.intakes") == 2
            await session.connection.execute("select 1 / 0")
            return []

    async with daemon_session(database) as session:
        broken = Broken(None, None)  # type: ignore[arg-type]
        with pytest.raises(asyncpg.DivisionByZeroError):
            await declaring.declare(session, session.transaction, broken)
        assert await intakes.listed(session) == []


async def test_waiting_events_of_a_batch_topic_are_read_in_one_page(database: Database) -> None:
    async with daemon_session(database) as session:
        await declare(session, [LEDGER], ("ledger", "a.b"))
        await taker(session).take()
        await database.execute(
            "insert into inboxd.events (type, topic) select 'x.y', 'ledger'"
            " from generate_series(1, 5000);"
            "update inboxd.events set status = 'pending'"
        )
        nodes = await ran(session, intakes.listed(session, late=True))
    read = [n["Actual Rows"] + n.get("Rows Removed by Filter", 0) for n in nodes]
    assert 1_000 <= max(read) <= 1_100


async def test_replayed_dead_letter_of_default_is_moved(database: Database) -> None:
    (dead,) = await emit(database, {"user": "u"})
    await database.execute("update inboxd.events set status = 'failed'")
    async with daemon_session(database) as session:
        await declare(session, [REWARDS], ("rewards", "a.b"))
        taking = taker(session)
        await taking.take()
        assert await told(database, "id", "topic", "status") == [(dead, "default", "failed")]
        await database.execute("update inboxd.events set status = 'pending'")
        for _ in range(6):
            await taking.take()
        assert await told(database, "topic", "status") == [("rewards", "waiting")]
        await database.execute("delete from inboxd.subscriptions")
        for _ in range(6):
            await taking.take()
    assert await database.fetchval("select array_agg(type) from inboxd.intakes") == [""]


@pytest.mark.parametrize("analyzed", ["never", "empty", "full", "emptied"])
async def test_cost_of_a_page_does_not_depend_on_the_statistics(
    database: Database, analyzed: str
) -> None:
    """Beside many unrelated events and keys, live and dead."""
    others = (
        "insert into inboxd.events (type, topic, dedup_key)"
        " select 'a.c', case n % 3 when 0 then 'default' else 'other' end, 'o' || n"
        " from generate_series(1, 12000) n"
    )
    await database.execute("alter table inboxd.events set (autovacuum_enabled = off)")
    await database.execute("alter table inboxd.dedup set (autovacuum_enabled = off)")
    if analyzed == "empty":
        await database.execute("vacuum (analyze) inboxd.events, inboxd.dedup")
    await database.execute(others)
    await emit(database, *[{"user": f"u{n % 3}"} for n in range(100)])
    await database.execute(
        "insert into inboxd.events (type, dedup_key) select 'a.b', 'k' || n"
        " from generate_series(1, 100) n"
    )
    if analyzed in ("full", "emptied"):
        await database.execute("vacuum (analyze) inboxd.events, inboxd.dedup")
    if analyzed == "emptied":
        await database.execute("delete from inboxd.events where type = 'a.c'")
    async with daemon_session(database) as session:
        await declare(session, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "a.b"))
        (waiting,) = [each for each in await intakes.listed(session) if each.type]

        async def turns() -> None:
            await intakes.listed(session, late=True)
            await intakes.count(session, "default", "a.b", 100)
            assert await intakes.take(session, waiting) == 200
            assert waiting.opened is not None
            assert await intakes.finish(session, waiting, waiting.opened)

        nodes = await ran(session, turns())
    hot = [n for n in nodes if n.get("Relation Name") in ("events", "dedup", "bodies")]
    assert hot
    assert [n["Relation Name"] for n in hot if n["Node Type"] == "Seq Scan"] == []
    for node in hot:
        read = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        assert read <= 400, node
        if "Index Name" in node:
            assert node.get("Index Cond"), node
    assert max(map(touched_by, nodes)) < 25_000
