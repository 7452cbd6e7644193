"""Claims of lines claim many rows and read little, beside blocked lines and old snapshots.

The statements run on the daemon's own session; the server reports the pages that they read.
"""

import json
from collections.abc import AsyncIterator, Sequence

import pytest

from inboxd import operations
from inboxd.model.lane import Lane
from inboxd.store import events, lines
from inboxd.store.lines import IdRange, Line
from inboxd.store.session import Session
from tests.support import Database
from tests.support.rows import SQL, daemon_session, join

pytestmark = pytest.mark.anyio

# Most pages of an index and of the table that a claim of a few rows may read.
FEW = 200
PAGE = 1000
_ALL = 2**60


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Session]:
    """The daemon's session on a database with a sequential topic and without autovacuum."""
    await database.execute(
        "alter table inboxd.events set (autovacuum_enabled = off);"
        "insert into inboxd.topics (name, mode, source) values ('ordered', 'sequential', 'test')"
    )
    async with daemon_session(database) as session:
        yield session


async def insert(session: Session, key: str, count: int = 1) -> list[int]:
    """Insert `count` events of a key; returns their ids."""
    rows = await session.connection.fetch(
        "insert into inboxd.events (topic, type, ordering_key) select 'ordered', 'turn', $1"
        " from generate_series(1, $2::int) returning id",
        key,
        count,
    )
    return [row["id"] for row in rows]


async def line_of(session: Session, key: str) -> Line:
    """The key's line in the topic `ordered`."""
    return Line(
        "ordered",
        await session.connection.fetchval("select inboxd.bucket_of('ordered', $1)", key),
        key,
    )


async def neighbour(session: Session, line: Line) -> str:
    """Another key of the same bucket."""
    found: str = await session.connection.fetchval(
        "select 'n' || n from generate_series(1, 10000) n"
        " where inboxd.bucket_of('ordered', 'n' || n) = $1 limit 1",
        line.bucket,
    )
    return found


async def touched(session: Session, statement: str, *arguments: object) -> int:
    """The number of pages that a statement reads."""
    explained = "explain (analyze, buffers, timing off, format json) " + SQL[statement]
    await session.connection.fetchval(
        explained, *arguments
    )  # the first time, planning reads the catalog
    (plan,) = json.loads(await session.connection.fetchval(explained, *arguments))
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


async def arrivals(session: Session, after: int, bucket: int, rows: int) -> int:
    """The number of pages that a claim of arrivals reads from the cursor `after` on."""
    where: list[list[object]] = [["ordered"], [bucket], [after], [_ALL]]
    return await touched(session, "claim_arrivals", *where, rows, rows)


async def settle(session: Session, ids: Sequence[int]) -> None:
    """Settle these events as succeeded."""
    await events.settle(session, [(id_, 0.0) for id_ in ids], await join(session))


async def block(session: Session, line: Line, followers: int) -> tuple[int, list[int]]:
    """Make a dead letter the head of a line, and line up followers behind it, page by page."""
    (head,) = await insert(session, line.key)
    await lines.line_up(session, [head])
    await session.connection.execute(
        "update inboxd.events set status = 'failed', fingerprint = 'f' where id = $1", head
    )
    behind = await insert(session, line.key, followers)
    for start in range(0, followers, PAGE):
        await lines.line_up(session, behind[start : start + PAGE])
    return head, behind


BLOCKED = pytest.mark.parametrize(
    "followers", [5_000, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.soak])]
)


@BLOCKED
async def test_events_behind_a_dead_letter_are_not_read(session: Session, followers: int) -> None:
    """No statement of a worker reads the followers while their line is blocked."""
    line = await line_of(session, "k")
    await block(session, line, followers)
    key = await neighbour(session, line)
    others = await insert(session, key, 20)
    lane = [["ordered"], ["turn"]]
    asked = {
        "claim_arrivals": await arrivals(session, others[0] - 1, line.bucket, 50),
        "look_arrivals": await touched(
            session, "look_arrivals", ["ordered"], [line.bucket], [others[0] - 1]
        ),
        "claim_lined_up": await touched(session, "claim_lined_up", ["ordered"], ["k"], PAGE),
        "due_heads": await touched(session, "due_heads", *lane, [0.0], [0], PAGE),
        "survey_heads": await touched(session, "survey_heads"),
        "blocked_lines": await touched(session, "blocked_lines", None, 10),
        "count_blocked_lines": await touched(session, "count_blocked_lines", PAGE),
    }
    assert {name: pages for name, pages in asked.items() if pages > FEW} == {}
    stretch = IdRange("ordered", line.bucket, 0, _ALL)
    for first in (others[:10], others[10:]):
        rows = await lines.claim_arrivals(session, [stretch], 10)
        assert [(row["id"], row["behind"]) for row in rows] == [(id_, False) for id_ in first]
        await settle(session, first)
    # A new event of the line gets a place behind the others, at the same low cost.
    late = await insert(session, "k")
    (row,) = await lines.claim_arrivals(session, [stretch], 10)
    assert (row["id"], row["behind"]) == (late[0], True)
    assert await touched(session, "line_up_events", late) < FEW


@BLOCKED
@pytest.mark.parametrize("action", ["replay", "dismiss"])
async def test_a_blocked_line_is_read_from_its_head_on(
    session: Session, database: Database, followers: int, action: operations.Action
) -> None:
    """After an operator's action the followers come in order, each page as cheap as the other.

    Another session's snapshot keeps the settled events in front of the head.
    """
    line = await line_of(session, "k")
    head, behind = await block(session, line, followers)
    assert await lines.claim_lined_up(session, [line], PAGE) == []
    await operations.act(session, "events", action, [head], actor="test")
    expected = [head, *behind] if action == "replay" else behind
    met: list[int] = []
    pages: list[int] = []
    async with database.connect() as holder, holder.transaction(isolation="repeatable_read"):
        await holder.fetch("select from inboxd.events limit 1")
        while rows := await lines.claim_lined_up(session, [line], PAGE):
            assert all(row["ready"] for row in rows)
            met += [row["id"] for row in rows]
            pages.append(await touched(session, "claim_lined_up", ["ordered"], ["k"], 1))
            await settle(session, [row["id"] for row in rows])
    assert met == expected
    # Each page has left one dead entry of a head, which the snapshot keeps.
    assert max(pages) < 20 + 2 * len(pages), pages
    assert await lines.due_heads(session, [Lane(("ordered", "turn"))], 10) == []


async def test_claim_takes_waiting_events_of_a_key_together(session: Session) -> None:
    """Arrived events, and events in lines: many of one key, and all of another."""
    hot, other = await line_of(session, "k"), await line_of(session, "other")
    assert hot.bucket != other.bucket
    many, few = await insert(session, "k", 50), await insert(session, "other", 3)
    buckets = [IdRange("ordered", each.bucket, 0, _ALL) for each in (hot, other)]
    rows = await lines.claim_arrivals(session, buckets, 100)
    assert [row["id"] for row in rows] == [*many, *few]
    await lines.line_up(session, [*many, *few])
    rows = await lines.claim_lined_up(session, [hot, other], 100)
    assert [row["id"] for row in rows] == [*many, *few]
    rows = await lines.claim_lined_up(session, [hot, other], 20)
    assert [row["id"] for row in rows] == many[:20]


async def test_claim_from_its_cursor_reads_no_settled_events(
    session: Session, database: Database
) -> None:
    """Another session's snapshot keeps the settled events at their places."""
    line = await line_of(session, "k")
    ids = await insert(session, "k", 5_000)
    async with database.connect() as holder, holder.transaction(isolation="repeatable_read"):
        await holder.fetch("select from inboxd.events limit 1")
        first = await arrivals(session, 0, line.bucket, 1)
        for start in range(0, len(ids) - 100, 100):
            await settle(session, ids[start : start + 100])
        last = await arrivals(session, ids[-101], line.bucket, 1)
        assert last <= first + 5
        swept = await arrivals(session, 0, line.bucket, 1)
        assert swept > 5 * first, "the snapshot keeps the entries that a cursor passes over"


async def test_only_the_wanted_number_of_free_buckets_is_taken(
    database: Database, session: Session
) -> None:
    """The first ones are taken; the others are left for other workers."""
    wanted = [("ordered", bucket) for bucket in (7, 5, 3, 1)]
    async with daemon_session(database) as other, other.transaction(), session.transaction():
        assert await lines.try_buckets(other, wanted[:1]) == wanted[:1]
        assert await lines.try_buckets(session, wanted, 2) == wanted[1:3]
        assert await lines.try_buckets(other, wanted) == [wanted[0], wanted[3]]
