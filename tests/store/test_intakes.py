"""Intakes: what waited before a declaration goes to its topics, once, in order, with its keys."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest

from inboxd.api.topics import Topic
from inboxd.daemon import declaring
from inboxd.daemon.declaring import WorkerDeclaration
from inboxd.maintenance.intakes import Intakes
from inboxd.store import intakes, topics
from inboxd.store.connections import Connection
from inboxd.store.topics import ChangedMode
from tests.support import Database
from tests.support.plans import told as ran
from tests.support.plans import touched_by
from tests.support.rows import SQL, daemon_session, no_bounds

pytestmark = pytest.mark.anyio

REWARDS = Topic(name="rewards", source="test", mode="sequential", key_path=("user",))
AUDIT = Topic(name="audit", source="test")
LEDGER = Topic(name="ledger", source="test", mode="batch", key_path=("user",))
KEYED = Topic(name="keyed", source="test", dedup_path=("order",))
ROWS = "select * from inboxd.events order by topic, id"


@asynccontextmanager
async def announced(
    connection: Connection, given: Sequence[Topic], subscriptions: Sequence[tuple[str, str]]
) -> AsyncIterator[None]:
    """A declaration that has been announced, and is made at the end of the block."""
    found = await intakes.announce(connection, SQL, given, subscriptions)
    yield
    async with connection.transaction():
        assert await intakes.hold(connection, SQL, found)
        await topics.declare(connection, SQL, given, subscriptions)
        await intakes.open_(connection, SQL, found)


async def declare(
    connection: Connection, given: Sequence[Topic], *subscriptions: tuple[str, str]
) -> None:
    """As a worker that joins."""
    async with announced(connection, given, subscriptions):
        pass


def taker(connection: Connection) -> Intakes:
    """What a worker does twice a second."""

    @asynccontextmanager
    async def borrow() -> AsyncIterator[Connection]:
        yield connection

    return Intakes(SQL, borrow, notify=True)


async def emit(
    where: "Database | asyncpg.Connection", *payloads: dict[str, Any], **columns: Any
) -> list[int]:
    """Events of the type a.b, in this order."""
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", ${n}" for n in range(2, 2 + len(columns)))
    rows = await where.fetch(
        f"insert into inboxd.events (type, payload{names}) select 'a.b', p::jsonb{values}"
        " from unnest($1::text[]) with ordinality as t(p, n) order by n returning id",
        [json.dumps(each) for each in payloads],
        *columns.values(),
    )
    return [row["id"] for row in rows]


async def told(database: Database, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in await database.fetch(ROWS)]


async def test_each_topic_gets_each_event_once_in_order(database: Database) -> None:
    await emit(database, *[{"user": f"u{n % 3}", "n": n} for n in range(2_500)])
    before = await database.fetch("select event_id, created_at from inboxd.events order by id")
    async with daemon_session(database) as connection:
        await declare(
            connection,
            [REWARDS, AUDIT, LEDGER],
            *[("rewards", "a.b"), ("audit", "a.b"), ("ledger", "a.b")],
        )
        await emit(database, {"user": "u1", "n": 2_500})
        taking = taker(connection)
        await taking.take()
        assert (taking.open, taking.taken) == ([], 2_500)
        await taking.take()
    rows = await database.fetch(ROWS)
    kinds = {"rewards": "waiting", "audit": "pending", "ledger": "waiting"}
    for topic, status in kinds.items():
        found = [row for row in rows if row["topic"] == topic]
        if topic != "audit":  # single events have no order
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
    async with daemon_session(database) as connection:
        pairs = [("rewards", "a.0"), ("rewards", "a.1")]
        await declare(connection, [REWARDS], *pairs)
        await taker(connection).take()
    assert [json.loads(p)["n"] for (p,) in await told(database, "payload")] == list(range(6))


async def test_what_is_served_in_default_stays(database: Database) -> None:
    ids = await emit(database, {}, {})
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS], ("rewards", "a.b"), ("default", "a.b"))
        await taker(connection).take()
        assert await told(database, "id", "topic") == [(id_, "default") for id_ in ids]
        await declare(connection, [AUDIT], ("audit", "a.b"))
        assert await intakes.listed(connection, SQL) == [], "nothing of it was unhandled"


async def test_events_that_name_a_topic_get_its_mode(database: Database) -> None:
    await emit(database, {"user": "u"}, {"user": "v"}, topic="rewards")
    await emit(database, {"user": "u"}, topic="rewards", ordering_key="given")
    large = {"user": "w", "text": "x" * 5_000}
    (kept,) = await emit(database, large, topic="rewards")
    body = await database.fetchval("select body_id from inboxd.events where id = $1", kept)
    assert body is not None
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS])
        await taker(connection).take()
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
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "a.b"))
        again = await emit(database, {"n": 2}, dedup_key="in between", source="shop")
        assert len(again) == 1, "the topics had not seen it yet"
        await taker(connection).take()
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


async def test_a_contradiction_is_a_dead_letter_there(database: Database) -> None:
    await emit(database, {"n": 1}, dedup_key="k")
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS], ("rewards", "a.b"))
        await emit(database, {"n": 2}, dedup_key="k")
        await taker(connection).take()
    found = await told(database, "payload", "status", "fingerprint")
    assert sorted((json.loads(p)["n"], status) for p, status, _ in found) == [
        (1, "failed"),
        (2, "waiting"),
    ]
    assert "dedup-conflict:a.b" in {fingerprint for *_, fingerprint in found}


async def test_a_declared_dedup_path_counts_for_what_waits(database: Database) -> None:
    await emit(database, {"order": "7", "n": 1}, {"order": "7", "n": 1}, {"order": "8"}, {})
    async with daemon_session(database) as connection:
        await declare(connection, [KEYED], ("keyed", "a.b"))
        await taker(connection).take()
        assert await emit(database, {"order": "8"}) == []
    assert sorted(str(key) for (key,) in await told(database, "dedup_key")) == ["7", "8", "None"]


async def test_an_event_that_the_topic_has_is_not_doubled(database: Database) -> None:
    event_id = uuid4()
    await emit(database, {}, event_id=event_id)
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS], ("rewards", "a.b"))
        (there,) = await emit(database, {}, event_id=event_id)
        await taker(connection).take()
    assert await told(database, "id", "topic") == [(there, "rewards")]


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

    with anyio.fail_after(30):
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


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("headers", {"a": "x" * 20_000}), ("headers", [])),
        *((name, "x" * 300) for name in ("entity_id", "source")),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
async def test_what_is_from_before_the_bounds_is_taken(
    database: Database, column: str, value: object
) -> None:
    given = json.dumps(value) if column == "headers" else value
    async with no_bounds(database):
        await emit(database, {"user": "u"}, {"user": "v"}, **{column: given})
        await emit(database, {"user": "w"}, **{column: given}, dedup_key="k")
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "a.b"))
        taking = taker(connection)
        await taking.take()
        assert taking.open == []
    assert sorted(await told(database, "topic")) == [("audit",)] * 3 + [("rewards",)] * 3
    with pytest.raises(asyncpg.CheckViolationError):
        await emit(database, {}, **{column: given})


async def test_nobody_else_gets_around_the_bounds(database: Database) -> None:
    """Who writes while events are taken is bounded as ever."""
    await emit(database, {})
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS], ("rewards", "a.b"))
        async with connection.transaction():
            assert await connection.fetchval(SQL["take_events"], "default", "a.b", 10) == 1
            for size in ({"entity_id": "x" * 300}, {"headers": "[]"}):
                with pytest.raises(asyncpg.CheckViolationError):
                    await emit(database, {}, **size)


async def test_an_intake_that_fails_holds_up_nothing_else(database: Database) -> None:
    """Nor does a row that fails hold up those before it."""
    await emit(database, *[{"n": n} for n in range(20)])
    await emit(database, {"poison": True})
    await database.execute(
        "insert into inboxd.events (type) values ('z.z');"
        "create function broken() returns trigger language plpgsql as"
        " 'begin raise exception ''broken'' using errcode = ''check_violation''; end';"
        "create trigger broken before insert on inboxd.events for each row"
        " when (new.payload ? 'poison') execute function broken()"
    )
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "z.z"))
        taking = taker(connection)
        await taking.take()
        assert [each.topics for each in taking.open] == [("rewards",)]
        for _ in range(3):
            await taking.take()
        assert set(await told(database, "topic")) == {("audit",), ("default",), ("rewards",)}
        assert taking.taken >= 11
        await database.execute("drop trigger broken on inboxd.events")
        await taking.take()
        assert taking.open == []


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


async def test_a_declaration_that_fails_holds_nothing(database: Database) -> None:
    class Broken(WorkerDeclaration):
        async def announce(self, connection: Connection) -> list[intakes.Intake]:
            return await intakes.announce(connection, SQL, [REWARDS], [("rewards", "a.b")])

        async def make(self, connection: Connection) -> list[ChangedMode]:
            assert await connection.fetchval("select count(*) from inboxd.intakes") == 2
            await connection.execute("select 1 / 0")
            return []

    async with daemon_session(database) as connection:
        broken = Broken(SQL, None, None, ())  # type: ignore[arg-type]
        with pytest.raises(asyncpg.DivisionByZeroError):
            await declaring.declare(connection, connection.transaction, broken)
        assert await intakes.listed(connection, SQL) == []


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


async def test_kept_events_of_a_batch_topic_cost_a_look_little(database: Database) -> None:
    async with daemon_session(database) as connection:
        await declare(connection, [LEDGER], ("ledger", "a.b"))
        await taker(connection).take()
        await database.execute(
            "insert into inboxd.events (type, topic) select 'x.y', 'ledger'"
            " from generate_series(1, 5000);"
            "update inboxd.events set status = 'pending'"
        )
        nodes = await ran(connection, intakes.listed(connection, SQL, late=True))
    read = [n["Actual Rows"] + n.get("Rows Removed by Filter", 0) for n in nodes]
    assert 1_000 <= max(read) <= 1_100


async def test_a_producer_with_the_same_keys_is_given_way(database: Database) -> None:
    """It waits for nobody, and is no victim of a deadlock; the page comes another time."""
    keys = ["a", "b"]
    for key in keys:
        await emit(database, {}, dedup_key=key)
    async with daemon_session(database) as connection, database.connect() as producer:
        await declare(connection, [AUDIT], ("audit", "a.b"))
        taking = taker(connection)
        async with producer.transaction():
            await emit(producer, {}, dedup_key="b")
            with anyio.fail_after(5):
                await taking.take()
            assert taking.taken == 0
            await emit(producer, {}, dedup_key="a")
        await taking.take()
    assert await told(database, "topic", "dedup_key") == [("audit", "b"), ("audit", "a")]


async def test_a_dead_letter_of_default_is_taken_when_it_is_replayed(database: Database) -> None:
    (dead,) = await emit(database, {"user": "u"})
    await database.execute("update inboxd.events set status = 'failed'")
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS], ("rewards", "a.b"))
        taking = taker(connection)
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
async def test_a_page_costs_what_it_takes_whatever_the_statistics_say(
    database: Database, analyzed: str
) -> None:
    """Beside many events and keys that have nothing to do with it, living and dead ones."""
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
    async with daemon_session(database) as connection:
        await declare(connection, [REWARDS, AUDIT], ("rewards", "a.b"), ("audit", "a.b"))
        (waiting,) = [each for each in await intakes.listed(connection, SQL) if each.type]

        async def turns() -> None:
            await intakes.listed(connection, SQL, late=True)
            await intakes.count(connection, SQL, "default", "a.b", 100)
            assert await intakes.take(connection, SQL, waiting) == 200
            assert waiting.opened is not None
            assert await intakes.finish(connection, SQL, waiting, waiting.opened)

        nodes = await ran(connection, turns())
    hot = [n for n in nodes if n.get("Relation Name") in ("events", "dedup", "bodies")]
    assert hot
    assert [n["Relation Name"] for n in hot if n["Node Type"] == "Seq Scan"] == []
    for node in hot:
        read = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        assert read <= 400, node
        if "Index Name" in node:
            assert node.get("Index Cond"), node
    assert max(map(touched_by, nodes)) < 25_000
