"""The record of dedup keys, in the database and in memory; its purge; duplicates are told."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
import structlog

from inboxd.model.dedup import Known, Received, Record, Windows
from inboxd.store.dedup import DatabaseRecord
from inboxd.store.pools import Pool, open_pool
from inboxd.telemetry.metrics import Metrics
from inboxd.testing import MemoryRecord
from inboxd.upkeep.dedup import Forgetting, Telling, Walk
from tests.support import Database, eventually
from tests.support.rows import SQL, settings_of

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)
Age = Callable[[timedelta], Awaitable[None]]


@pytest.fixture(params=["database", "memory"])
async def record(
    request: pytest.FixtureRequest, database: Database
) -> AsyncIterator[tuple[Record, Age]]:
    """A record, and a way to let time go by."""
    if request.param == "memory":
        now = datetime.now(UTC)

        async def wait(time: timedelta) -> None:
            nonlocal now
            now += time

        yield MemoryRecord(lambda: now), wait
        return
    async with database.connect() as connection:

        async def age(time: timedelta) -> None:
            await connection.execute(
                "update inboxd.dedup set seen_at = seen_at - $1::interval", time
            )

        yield DatabaseRecord(connection, SQL), age


def received(
    key: str = "k", *, topic: str = "stock", source: str = "", says: str = "{}"
) -> Received:
    return Received(topic=topic, key=key, event_id=uuid4(), source=source, type="a.b", payload=says)


async def test_the_first_is_told_so_and_the_others_who_it_was(record: tuple[Record, Age]) -> None:
    remembers, _ = record
    first = received()
    assert await remembers.remember(first) is None
    assert await remembers.remember(first) == Known(first.event_id, conflict=False)
    assert await remembers.remember(received()) == Known(first.event_id, conflict=False)
    assert await remembers.remember(received(says="[1]")) == Known(first.event_id, conflict=True)


async def test_the_same_is_what_says_the_same(record: tuple[Record, Age]) -> None:
    remembers, _ = record
    first = received(says='{"a": [1, 2.5, null], "b": "ä"}')
    await remembers.remember(first)
    again = await remembers.remember(received(says='{ "b":"\\u00e4","a":[1,2.5,null] }'))
    assert again == Known(first.event_id, conflict=False)


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        ("1", "true", True),
        ("1", "1.0", True),
        ("1e2", "100", False),
        ('"1"', "1", True),
        ("1.10", "1.1", True),
        ("-0", "0", False),
        ("-0.0", "0.0", False),
        ("0.0", "0", True),
        ("12345678901234567890123", "12345678901234567890124", True),
        ("[]", "{}", True),
        ('{"a": 1, "a": 2}', '{"a": 2}', False),
        ('"\\ud83d\\ude00"', '"😀"', False),
    ],
)
async def test_values_are_told_apart_as_jsonb_does(
    record: tuple[Record, Age], one: str, other: str, *, conflict: bool
) -> None:
    remembers, _ = record
    first = received(says=f'{{"v": {one}}}')
    await remembers.remember(first)
    again = await remembers.remember(received(says=f'{{"v": {other}}}'))
    assert again == Known(first.event_id, conflict=conflict)


async def test_topics_and_sources_have_keys_of_their_own(record: tuple[Record, Age]) -> None:
    remembers, _ = record
    others = [received(), received(topic="other"), received(source="bank"), received("l")]
    assert [await remembers.remember(each) for each in others] == [None] * 4


async def test_a_key_is_forgotten_when_its_window_is_over(record: tuple[Record, Age]) -> None:
    remembers, wait = record
    windows = Windows(DAY, sources={"bank": 3 * DAY}, topics={"audit": 2 * DAY, "bank": DAY})
    all_ = [
        received("default"),
        received("bank", source="bank"),
        received("topic", topic="audit"),
        received("longer", topic="audit", source="bank"),
    ]
    for each in all_:
        await remembers.remember(each)
    gone = []
    for _ in range(4):
        gone.append(await remembers.forget(windows))
        await wait(DAY + timedelta(seconds=1))
    assert gone == [0, 1, 1, 2]
    again = [await remembers.remember(received("k")), await remembers.remember(received("default"))]
    assert again == [None, None]


# ---------------------------------------------------------------------------------- the duties


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    """The daemon's connections."""
    async with open_pool(settings_of(database), "test", 2) as pool:
        yield pool


async def test_a_redelivery_counts_until_the_walk_has_come_by(
    database: Database, pool: Pool
) -> None:
    insert = "insert into inboxd.events (type, dedup_key) values ('a.b', $1)"
    await database.execute(
        "insert into inboxd.events (type, dedup_key)"
        " select 'a.b', n::text from generate_series(1, 5000) n"
    )
    await database.execute(
        "update inboxd.dedup set seen_at = seen_at - interval '2 hours' where key::integer <= 4000"
    )
    await database.execute("delete from inboxd.events")
    await database.execute(insert, "1")
    assert await database.fetchval("select count(*) from inboxd.events") == 0
    metrics = Metrics("test")
    duty = Forgetting(pool, SQL, metrics, Windows(timedelta(seconds=60)))

    async def is_forgotten() -> bool:
        await duty.turn()
        return bool(metrics.dedup_forgotten._value.get() == 4000)

    await eventually(is_forgotten)
    assert await database.fetchval("select count(*) from inboxd.dedup") == 1000
    for key in ("1", "5000"):
        await database.execute(insert, key)
    assert await database.fetchval("select count(*) from inboxd.events") == 1


async def test_a_declared_window_keeps_a_topics_keys(database: Database, pool: Pool) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, rules, source)"
        """ values ('kept', 'single', '{"dedup_window": "1h30m"}', 'test')"""
    )
    await database.execute(
        "insert into inboxd.dedup (topic, source, key, event_id, seen_at)"
        " select topic, '', 'k', gen_random_uuid(), now() - interval '80 minutes'"
        " from unnest(array['kept', 'other']) as topic"
    )
    await Forgetting(pool, SQL, Metrics("test"), Windows(timedelta(hours=1))).turn()
    assert await database.fetchval("select array_agg(topic) from inboxd.dedup") == ["kept"]


@pytest.mark.parametrize(
    ("seconds", "block", "behind"), [(0, 0, True), (5, 60, False), (9, 60, True)]
)
def test_a_walk_spreads_over_its_period(seconds: float, block: int, *, behind: bool) -> None:
    walk = Walk(blocks=100, period=10.0, started=0.0, block=block)
    assert walk.behind(seconds) is behind
    assert not walk.over(seconds)


async def test_duplicates_are_told_once(database: Database, pool: Pool) -> None:
    for body in ("{}", "{}", "[1]"):
        await database.fetch("select inboxd.emit_event('a.b', $1, dedup_key => 'k')", body)
    metrics, worker = Metrics("test"), UUID(int=1)
    with structlog.testing.capture_logs() as logged:
        for _ in range(2):
            await Telling(pool, SQL, metrics, worker).turn()
    told = [(line["log_level"], line["event"], line["key"]) for line in logged]
    assert told == [
        ("debug", "duplicate", "k"),
        ("warning", "dedup key of another event, which said something else", "k"),
    ]
    assert metrics.duplicates.labels("default")._value.get() == 1
    assert metrics.dedup_conflicts.labels("default")._value.get() == 1
    stats = await database.fetch("select type, outcome, count from inboxd.stats")
    assert [tuple(row) for row in stats] == [("a.b", "duplicate", 1)]


async def test_a_page_of_contradictions_alone_is_told(database: Database, pool: Pool) -> None:
    for n in range(3):
        await database.fetch("select inboxd.emit_event('a.b', $1, dedup_key => 'k')", str(n))
    metrics = Metrics("test")
    with structlog.testing.capture_logs() as logged:
        await Telling(pool, SQL, metrics, UUID(int=1)).turn()
    assert [line["log_level"] for line in logged] == ["warning"] * 2
    assert metrics.dedup_conflicts.labels("default")._value.get() == 2
    assert await database.fetchval("select count(*) from inboxd.duplicates") == 0
