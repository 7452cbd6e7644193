"""The record of dedup keys, its purge, and the report of duplicates."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID, uuid4

import pytest
import structlog

from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.dedup import DedupPurger, WalkPace
from inboxd.maintenance.duplicates import DuplicateReport
from inboxd.model.dedup import Windows
from inboxd.store import dedup
from inboxd.store.pools import Pool, open_pool
from inboxd.telemetry.metrics import Metrics
from tests.support import Database, eventually
from tests.support.counted import counted
from tests.support.rows import daemon_session, settings_of

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Received:
    """An event with a dedup key."""

    key: str = "k"
    topic: str = "stock"
    source: str = ""
    says: str = "{}"
    event_id: UUID = field(default_factory=uuid4)


class Told(NamedTuple):
    """The answer for a later event of a key: the first event, or None for a contradiction."""

    first: UUID | None
    conflict: bool


async def send(database: Database, received: Received) -> Told | None:
    """Emit the event as a producer does; returns None for the first of its key."""
    (row,) = await database.fetch(
        "select * from inboxd.emit_event('a.b', $1::text::jsonb, topic => $2, source => $3,"
        " dedup_key => $4, event_id => $5)",
        *(received.says, received.topic, received.source, received.key, received.event_id),
    )
    if not (row["duplicate"] or row["conflict"]):
        return None
    return Told(None if row["conflict"] else row["new_event_id"], row["conflict"])


async def test_later_events_of_a_key_name_the_first(database: Database) -> None:
    first = Received()
    assert await send(database, first) is None
    assert await send(database, first) == Told(first.event_id, conflict=False)
    assert await send(database, Received()) == Told(first.event_id, conflict=False)
    assert await send(database, Received(says="[1]")) == Told(None, conflict=True)


async def test_equal_payloads_are_duplicates_and_others_contradictions(database: Database) -> None:
    """Payloads are compared as jsonb; differing pairs are contradictions."""
    pairs = [
        ('{"a": [1, 2.5, null], "b": "ä"}', '{ "b":"\\u00e4","a":[1,2.5,null] }', False),
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
    ]
    for number, (one, other, conflict) in enumerate(pairs):
        key = f"pair {number}"
        assert await send(database, Received(key, says=f'{{"v": {one}}}')) is None
        again = await send(database, Received(key, says=f'{{"v": {other}}}'))
        assert (again and again.conflict) == conflict, (one, other)


async def test_dedup_keys_belong_to_a_topic_and_a_source(database: Database) -> None:
    others = [Received(), Received(topic="other"), Received(source="bank"), Received("l")]
    assert [await send(database, each) for each in others] == [None] * 4


async def test_a_key_is_forgotten_when_its_window_is_over(database: Database) -> None:
    windows = Windows(DAY, sources={"bank": 3 * DAY}, topics={"audit": 2 * DAY, "bank": DAY})
    all_ = [
        Received("default"),
        Received("bank", source="bank"),
        Received("topic", topic="audit"),
        Received("longer", topic="audit", source="bank"),
    ]
    for each in all_:
        await send(database, each)
    gone = []
    async with daemon_session(database) as session:
        for _ in range(4):
            blocks, asked = await dedup.survey(session, windows)
            gone.append(await dedup.forget(session, asked, 0, blocks))
            await database.execute("update inboxd.dedup set seen_at = seen_at - interval '86401 s'")
    assert gone == [0, 1, 1, 2]
    assert [await send(database, Received(key)) for key in ("k", "default")] == [None, None]


# ---------------------------------------------------------------------------------- the tasks


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    """The daemon's pool of connections."""
    async with open_pool(settings_of(database), "test", 2) as pool:
        yield pool


async def test_redelivery_is_a_duplicate_until_the_purge_reaches_its_key(
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
    context = MaintenanceContext(pool, metrics, UUID(int=1))
    purger = DedupPurger(context, Windows(timedelta(seconds=60)))

    async def is_forgotten() -> bool:
        await purger.purge()
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
    context = MaintenanceContext(pool, Metrics("test"), UUID(int=1))
    await DedupPurger(context, Windows(timedelta(hours=1))).purge()
    assert await database.fetchval("select array_agg(topic) from inboxd.dedup") == ["kept"]


@pytest.mark.parametrize(
    ("seconds", "block", "behind"), [(0, 0, True), (5, 60, False), (9, 60, True)]
)
def test_a_walk_spreads_over_its_period(seconds: float, block: int, *, behind: bool) -> None:
    walk = WalkPace(blocks=100, period=10.0, started=0.0, block=block)
    assert walk.behind(seconds) is behind
    assert not walk.over(seconds)


async def test_steps_of_a_walk_adapt_to_their_duration(pool: Pool) -> None:
    purger = DedupPurger(
        MaintenanceContext(pool, Metrics("test"), UUID(int=1)), Windows(timedelta(hours=1))
    )
    sizes = [purger._size.now]
    for seconds in (0.01, 0.01, 0.04, 0.06, 0.06, 0.06):
        purger._adapt(seconds)
        sizes.append(purger._size.now)
    assert sizes == [16, 32, 64, 64, 32, 16, 16]


async def test_duplicates_are_reported_once(database: Database, pool: Pool) -> None:
    for body in ("{}", "{}", "[1]"):
        await database.fetch("select inboxd.emit_event('a.b', $1, dedup_key => 'k')", body)
    metrics, worker = Metrics("test"), UUID(int=1)
    report = DuplicateReport(MaintenanceContext(pool, metrics, worker)).report
    with structlog.testing.capture_logs() as logged:
        for _ in range(2):
            await report()
    told = [(line["log_level"], line["event"], line["key"]) for line in logged]
    assert told == [
        ("info", "duplicate", "k"),
        ("warning", "a dedup key came again with other content", "k"),
    ]
    assert metrics.duplicates.labels("default")._value.get() == 1
    assert metrics.dedup_conflicts.labels("default")._value.get() == 1
    assert await counted(database, "lane, type, outcome") == {("default", "a.b", "duplicate"): 1}


async def test_page_of_contradictions_only_is_reported(database: Database, pool: Pool) -> None:
    for n in range(3):
        await database.fetch("select inboxd.emit_event('a.b', $1, dedup_key => 'k')", str(n))
    metrics = Metrics("test")
    with structlog.testing.capture_logs() as logged:
        await DuplicateReport(MaintenanceContext(pool, metrics, UUID(int=1))).report()
    assert [line["log_level"] for line in logged] == ["warning"] * 2
    assert metrics.dedup_conflicts.labels("default")._value.get() == 2
    assert await database.fetchval("select count(*) from inboxd.duplicates") == 0
