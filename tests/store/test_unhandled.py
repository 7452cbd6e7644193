"""Unhandled events: how they are found, and their cost for others; waiting chunks do not block."""

from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from inboxd.model.lane import Lane
from inboxd.store import chunks, events, lines, workers
from inboxd.store import topics as store_topics
from inboxd.store.lines import IdRange, Line
from inboxd.store.session import Session
from tests.support import Database
from tests.support.plans import told, touched_by
from tests.support.rows import SQL, daemon_session

pytestmark = pytest.mark.anyio

_ALL = 2**60


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Session]:
    """The daemon's session on tables without vacuum and analyze."""
    await database.execute("alter table inboxd.events set (autovacuum_enabled = off)")
    async with daemon_session(database) as session:
        yield session


async def join(session: Session, **serves: Any) -> None:
    """Let a worker join with these subscriptions (`events` follow from them) and served topics."""
    types = {type_ for _, type_ in serves.get("subscriptions", ())}
    same = workers.WorkerIdentity(uuid4(), "w", "h", 1, "0", tuple(sorted(types)), (), (), "same")
    await workers.join(session, replace(same, **serves))


async def unhandled(session: Session, topic: str, type_: str) -> bool:
    """Whether no worker handles the type in this topic."""
    return (topic, type_) in await workers.unhandled(session, [(topic, type_)])


async def test_no_event_is_unhandled_without_living_workers(session: Session) -> None:
    """Status and doctor then say that no worker is alive, and waiting rows are late."""
    assert not await unhandled(session, "default", "a")
    await join(session)
    assert await unhandled(session, "default", "a")
    await session.connection.execute("update inboxd.workers set state = 'stopped'")
    assert not await unhandled(session, "default", "a")


_HANDLED = {
    ("default", "anywhere"): True,
    ("free", "anywhere"): True,
    ("lined", "named"): True,
    ("lined", "anywhere"): True,
    ("free", "named"): False,
    ("default", "named"): False,
    ("chunked", "item"): True,
    ("chunked", "anywhere"): False,  # the chunk handler alone serves this topic
    ("default", "strange"): False,
}
_SUBSCRIPTIONS = (("default", "anywhere"), ("lined", "named"), ("chunked", "item"))


@pytest.mark.parametrize("served", [(), ("lined",), ("default", "chunked"), ("free",)])
async def test_handlers_of_types_and_topics(session: Session, served: tuple[str, ...]) -> None:
    """A handler without a topic serves all topics of its worker, except its batch topics.

    The worker itself claims by the same rule: see `test_topics.py`.
    """
    await session.connection.execute(
        "insert into inboxd.topics (name, mode, source) values ('lined', 'sequential', 't'),"
        " ('chunked', 'batch', 't')"
    )
    await join(session, subscriptions=_SUBSCRIPTIONS, served_topics=served)
    found = await workers.unhandled(session, list(_HANDLED))
    expected = {
        pair
        for pair, handled in _HANDLED.items()
        if not handled or (served and pair[0] not in served)
    }
    assert set(found) == expected
    visited = {topic for (topic, _), visits in found.items() if visits}
    topics = {topic for topic, _ in expected}
    assert visited == (topics & set(served) if served else topics)
    await join(session, subscriptions=[("default", "anywhere")])
    assert not await unhandled(session, "chunked", "anywhere"), "this worker has no chunk handler"


async def test_worker_without_handlers_in_a_topic_does_not_visit_it(session: Session) -> None:
    await join(session, subscriptions=[("lined", "named")])
    found = await workers.unhandled(session, [("lined", "other"), ("free", "other")])
    assert found == {("lined", "other"): True, ("free", "other"): False}


@pytest.mark.parametrize("served", [(), ("default",), ("default", "chunked")])
async def test_type_declared_by_a_worker_of_other_topics_joins_no_chunk(
    session: Session, served: tuple[str, ...]
) -> None:
    """It would wait there, fill the chunk, and not be shown as kept."""
    await session.connection.execute(
        "insert into inboxd.topics (name, mode, source) values ('chunked', 'batch', 't');"
        "insert into inboxd.events (topic, type, ordering_key) values ('chunked', 'other', 'k')"
    )
    await join(
        session, subscriptions=[("chunked", "item"), ("chunked", "other")], served_topics=served
    )
    await join(session, subscriptions=[("chunked", "item")])
    nobodys = await unhandled(session, "chunked", "other")
    bucket = await session.connection.fetchval("select bucket from inboxd.events")
    arrived = IdRange("chunked", bucket, 0, _ALL)
    await chunks.line_up_arrivals(session, arrived, 10, timedelta(hours=1), [], ["item"])
    (row,) = await session.connection.fetch("select status, position from inboxd.events")
    assert tuple(row) == (("pending", None) if nobodys else ("waiting", 1))
    assert nobodys == (served == ("default",))


async def test_statements_about_handlers_use_the_served_topics(session: Session) -> None:
    """A worker may declare more than it serves; one statement reads only the declarations."""
    functions = await session.connection.fetch(
        "select proname, prosrc from pg_proc where pronamespace = 'inboxd'::regnamespace"
    )
    asked = {**SQL, **dict(map(tuple, functions))}
    living = {
        name: "served_topics" in text
        for name, text in asked.items()
        if "state IN ('running', 'draining')" in text and "subscriptions" in text
    }
    assert living.pop("mark_subscriptions") is False
    assert living.pop("explain_event") is False  # reads lease holders, not handlers
    assert living == dict.fromkeys(("line_up_arrivals", "unhandled", "is_unhandled"), True)


async def test_worker_of_a_release_without_topics_declares_types_only(session: Session) -> None:
    await join(session, events=("a",))
    assert not await unhandled(session, "anything", "a")
    assert await unhandled(session, "anything", "b")


async def test_events_stay_once_a_worker_handles_them(session: Session) -> None:
    """A worker that joins while a lane is ended page by page keeps the rest."""
    await join(session)
    await session.connection.execute(
        "insert into inboxd.events (type) select 'late' from generate_series(1, 30)"
    )
    lane = ("default", "late")
    async with session.transaction():
        ids = await events.stranded(session, lane, 10, timedelta(0))
        assert await events.ignore(session, ids, "{}") == 10
    await join(session, subscriptions=[("default", "late")])
    assert await events.stranded(session, lane, 10, timedelta(0)) == []
    assert await session.connection.fetchval("select count(*) from inboxd.events") == 20


async def test_chunk_that_waits_for_its_workers_is_not_blocked(session: Session) -> None:
    await join(session)
    await session.connection.execute(
        "insert into inboxd.topics (name, mode, source) values ('chunked', 'batch', 't');"
        "insert into inboxd.events (topic, type, ordering_key) values ('chunked', 'item', 'k');"
        "update inboxd.events set position = 1, head = true"
    )
    assert await lines.count_blocked(session) == []
    assert await lines.blocked(session, None, 10) == []
    (row,) = await store_topics.lines(session)
    assert (row["lined_up"], row["kept"]) == (1, 0)


# ------------------------------------------------------------------------------------ the cost

_SERVED = """
insert into inboxd.topics (name, mode, source) values ('ordered', 'sequential', 'test');
insert into inboxd.events (type) select 'served' from generate_series(1, 200);
insert into inboxd.events (topic, type, ordering_key)
    select 'ordered', 'turn', 'own' || n % 20 from generate_series(1, 100) n;
update inboxd.events e set position = f.n, head = f.n = 1
    from (select id as i, row_number() over (partition by ordering_key order by id) as n
            from inboxd.events where topic = 'ordered') f where e.id = f.i;
insert into inboxd.events (topic, type, ordering_key)
    select 'ordered', 'turn', 'new' || n % 20 from generate_series(1, 100) n;
"""
# A lane; keys with a kept event at their head; and one key with many events behind its head.
_KEPT = """
insert into inboxd.events (type, run_at)
    select 'kept', now() - interval '1 hour' from generate_series(1, {rows} / 2);
insert into inboxd.events (topic, type, ordering_key)
    select 'ordered', 'kept', 'k' || n from generate_series(1, {rows} / 4) n;
insert into inboxd.events (topic, type, ordering_key)
    select 'ordered', 'kept', 'long' from generate_series(1, {rows} / 4) n;
update inboxd.events e set position = f.n, head = f.n = 1
    from (select id as i, row_number() over (partition by ordering_key order by id) as n
            from inboxd.events where topic = 'ordered' and type = 'kept') f where e.id = f.i;
"""


async def _blocks(session: Session, work: Awaitable[object]) -> int:
    nodes = await told(session, work)
    return sum(touched_by(node) for node in nodes if "Parent Relationship" not in node)


async def _touched(session: Session) -> dict[str, int]:
    """Blocks per statement for a worker of the type "served", and of "turn" in "ordered"."""
    served, turns = [Lane(("default", "served"))], [Lane(("ordered", "turn"))]
    (first,) = await session.connection.fetch(
        "select bucket, min(id) as id from inboxd.events where status = 'waiting'"
        " and position is null group by 1 order by 1 limit 1"
    )
    bucket, after = first["bucket"], first["id"] - 1
    own = [
        Line(
            "ordered",
            await session.connection.fetchval("select inboxd.bucket_of('ordered', $1)", key),
            key,
        )
        for key in (f"own{n}" for n in range(10))
    ]
    asked = {
        "survey_events": events.survey(session),
        "claim_events": events.claim(session, served, 100),
        "survey_arrivals": session.fetch("survey_arrivals"),
        "look_arrivals": lines.look(session, [(("ordered", bucket), after)]),
        "claim_arrivals": lines.claim_arrivals(
            session, [IdRange("ordered", bucket, after, _ALL)], 50
        ),
        "survey_heads": session.fetch("survey_heads"),
        "due_heads": lines.due_heads(session, turns, 100),
        "claim_lined_up": lines.claim_lined_up(session, own, 50),
    }
    return {name: await _blocks(session, work) for name, work in asked.items()}


@pytest.mark.parametrize(
    "rows", [40_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.soak])]
)
async def test_kept_events_do_not_make_claims_of_others_more_expensive(
    session: Session, rows: int
) -> None:
    """A deeper index costs one block per probe; kept events are never scanned."""
    await join(session, subscriptions=[("default", "served"), ("ordered", "turn")])
    await session.connection.execute(_SERVED)
    await _touched(session)  # the first time, the catalogue is read
    await session.connection.execute("vacuum inboxd.events")
    before = await _touched(session)
    await session.connection.execute(_KEPT.format(rows=rows))
    await session.connection.execute(
        "vacuum inboxd.events"
    )  # removes dead entries of the update above
    after = await _touched(session)
    # One probe for each kept lane, and the additional levels of an index.
    more = {name: after[name] - before[name] for name in after}
    assert {name: pages for name, pages in more.items() if pages > 0.5 * before[name] + 30} == {}
    # A new event of the long line is lined up behind the others, and costs as little.
    (late,) = await session.connection.fetch(
        "insert into inboxd.events (topic, type, ordering_key) values ('ordered', 'turn', 'long')"
        " returning id"
    )
    assert await _blocks(session, lines.line_up(session, [late["id"]])) < 100
    # Counting stops at a limit.
    assert await _blocks(session, lines.count_blocked(session)) < 5_000
    kept = {(each.held_by, each.lines) for each in await lines.count_blocked(session)}
    assert kept == {("no handler", lines.HOLDERS)}
