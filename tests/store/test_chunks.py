"""Statements of chunks, at the same time as an operator's session, and in portions."""

from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from inboxd import EventChunk, EventContext, Handlers
from inboxd.events.chunks.reading import StoredChunk, UnreadEvents
from inboxd.registry.plugins import build_registry
from inboxd.settings import Events
from inboxd.store import chunks
from inboxd.store.chunks import PositionRange
from inboxd.store.connections import Connection, Row
from inboxd.store.rows import ClaimedEvent, claimed_events
from inboxd.store.session import Session
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import SQL, daemon_session

pytestmark = pytest.mark.anyio

HEAD = """
insert into inboxd.topics (name, mode, source) values ('chunked', 'batch', 'test');
insert into inboxd.events (topic, mode, type, ordering_key, bucket, status, head, position, run_at)
select 'chunked', 'batch', 'item', 'k', inboxd.bucket_of('chunked', 'k'), 'waiting', n = 1, n,
       now() + interval '1 h' from generate_series(1, 3) n
"""

# The first four events are large.
LONG = """
insert into inboxd.topics (name, mode, source) values ('chunked', 'batch', 'test');
insert into inboxd.events (topic, mode, type, ordering_key, bucket, status, head, position, payload)
select 'chunked', 'batch', 'item', 'k', inboxd.bucket_of('chunked', 'k'), 'waiting', n = 1, n,
       jsonb_build_object('n', n, 'pad', repeat('x', case when n <= 4 then 2000 else 0 end))
  from generate_series(1, 25) n
"""


class Noting:
    """A connection that counts the rows of each statement."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.brought = dict.fromkeys(("read_chunk", "read_bodies"), 0)

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        """Run the statement and count its rows."""
        rows = await self.connection.fetch(query, *arguments)
        (name,) = (name for name in self.brought if SQL[name] == query)
        self.brought[name] += len(rows)
        return rows


async def take(events: EventChunk[dict[str, Any]], ctx: EventContext) -> None:
    """Handle a chunk, for tests that need no effect."""


async def test_run_at_that_an_operator_sets_meanwhile_is_kept(database: Database) -> None:
    await database.execute(HEAD)
    (head,) = await database.fetch("select id from inboxd.events where head")
    async with (
        daemon_session(database) as visit,
        database.connect() as operator,
        anyio.create_task_group() as tasks,
        operator.transaction(),
    ):
        await operator.fetch(SQL["lock_events"], [head["id"]], [])
        later = await operator.fetchval("select now() + interval '5 h'")
        await operator.fetch(SQL["reschedule_events"], [head["id"]], later)
        tasks.start_soon(chunks.complete, visit, "chunked", ["k"], 3, [])
        await lock_awaited(database, query="%UPDATE%inboxd.events e SET run_at%")
    left = "select run_at > now() + interval '4 h' from inboxd.events where head"
    assert await database.fetchval(left)


async def test_full_chunk_is_due_at_once(database: Database) -> None:
    await database.execute(HEAD)
    async with daemon_session(database) as visit:
        await chunks.complete(visit, "chunked", ["k"], 4, [])
        due = "select run_at <= clock_timestamp() from inboxd.events where head"
        assert not await database.fetchval(due)
        await chunks.complete(visit, "chunked", ["k"], 3, [])
        assert await database.fetchval(due)


async def test_streamed_chunk_is_read_in_portions(database: Database) -> None:
    """A portion is a page of rows, and has at most page_bytes of their payloads."""
    await database.execute(LONG)
    handlers = Handlers("test")
    handlers.topic("chunked", mode="batch", count=25)
    handlers.chunk("item", topic="chunked")(take)
    handler = build_registry([("a plugin", handlers)]).chunks["chunked"]
    limits = Events(page_rows=10, page_bytes=5_000)
    (first,) = claimed_events(await database.fetch("select * from inboxd.events where head"))
    stretch = PositionRange("chunked", "k", 1, 25)
    stored = StoredChunk(limits, handler, stretch, 25, first)
    async with daemon_session(database) as session:
        for _ in range(2):  # a chunk can be read again
            noting, met = Noting(session.connection), []
            noted = Session(cast("Connection", noting), SQL)
            async for portion in stored.read(lambda: noted, UnreadEvents()):  # noqa: B023 - read at once
                positions = [event.payload["n"] for event in portion]
                met.append((positions, *noting.brought.values()))
            assert met == [
                ([1, 2], 10, 2),
                ([3, 4, 5, 6, 7, 8, 9, 10], 10, 4),
                (list(range(11, 21)), 20, 4),
                (list(range(21, 26)), 25, 4),
            ]


async def test_headers_count_in_the_size_of_a_portion_and_are_complete(database: Database) -> None:
    await database.execute(
        LONG.replace("payload)", "payload, headers)").replace(
            "  from", ", jsonb_build_object('h', repeat(n::text, 1600)) from"
        )
    )
    handlers = Handlers("test")
    handlers.topic("chunked", mode="batch", count=25)
    handlers.chunk("item", topic="chunked")(take)
    handler = build_registry([("a plugin", handlers)]).chunks["chunked"]
    limits = Events(page_rows=25, page_bytes=10_000)
    (first,) = claimed_events(await database.fetch("select * from inboxd.events where head"))
    stored = StoredChunk(limits, handler, PositionRange("chunked", "k", 1, 25), 25, first)
    async with daemon_session(database) as session:
        met = [portion async for portion in stored.read(lambda: session, UnreadEvents())]
        (held,) = await session.fetch("read_chunk", "chunked", "k", 8, 9, 1)
    assert held["headers"] is None
    assert held["headers_bytes"] > 1600
    assert sum(map(len, met)) == 25
    assert max(map(len, met)) <= 10_000 // 1600
    assert all(e.headers == {"h": str(e.payload["n"]) * 1600} for portion in met for e in portion)


async def test_chunk_is_scanned_in_stretches(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan of a million events from disk takes longer than the statement timeout."""
    monkeypatch.setattr(chunks, "_STRETCH_POSITIONS", 10)
    await database.execute(LONG)
    await database.execute(
        "alter table inboxd.events disable trigger user;"  # events cannot be changed
        " update inboxd.events set tenant = 't', type = 'rare',"
        " correlation_id = case position when 15 then 'b' else 'a' end"
    )
    first = cast("ClaimedEvent", {"correlation_id": "a", "tenant": "t"})
    asked: list[Any] = []
    older, whole = PositionRange("chunked", "k", 1, 14), PositionRange("chunked", "k", 1, 25)
    async with daemon_session(database) as session:
        session.connection.add_query_logger(lambda each: asked.append(each.args))
        assert await chunks.common_in(session, older, first) == ("a", "t")
        assert await chunks.common_in(session, whole, first) == (None, "t")
        assert await chunks.types_in(session, whole, ["none", "rare"]) == ["rare"]
        await anyio.lowlevel.checkpoint()  # asyncpg calls the logger in the next step of the loop
    assert [args[2:4] for args in asked[2:5]] == [(1, 10), (11, 20), (21, 25)]
    assert [args[4] for args in asked] == [
        *("a", "a"),
        *("a", "a", None),
        *(["none", "rare"], ["none"], ["none"]),
    ]


async def test_positions_beyond_32_bits_are_measured(database: Database) -> None:
    await database.execute(HEAD.replace("n = 1, n,", "n = 1, 3000000000 + n,"))
    async with daemon_session(database) as visit:
        (line,) = await chunks.open_lines(visit, "chunked", ["k"], 1, due=False)
        found = await chunks.measure(visit, "chunked", line, None, 2)
    assert found == (2, 3_000_000_002)


@pytest.mark.parametrize(("full", "expected", "due"), [(3, [], True), (None, ["item", "b"], False)])
async def test_deleted_event_of_a_chunk_counts_for_its_size_only(
    database: Database, full: int | None, expected: list[str], due: bool
) -> None:
    await database.execute(HEAD.replace("'item'", "case n when 2 then 'b' else 'item' end"))
    await database.execute("delete from inboxd.events where position = 2")
    async with daemon_session(database) as visit:
        await chunks.complete(visit, "chunked", ["k"], full, expected)
    now_due = "select run_at <= clock_timestamp() from inboxd.events where head"
    assert await database.fetchval(now_due) is due
