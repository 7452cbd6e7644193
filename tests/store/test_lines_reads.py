"""Claims of lines take much and read little: beside a blocked line, and under a held snapshot.

The statements are those of the daemon, on its own session; what they touch is what the server says.
"""

import json
from collections.abc import AsyncIterator, Sequence

import pytest

from inboxd import operations
from inboxd.model.lane import Lane
from inboxd.store import events, lines
from inboxd.store.connections import Connection
from inboxd.store.lines import IdRange, Line
from inboxd.store.session import Session
from tests.support import Database
from tests.support.rows import SQL, daemon_session, join

pytestmark = pytest.mark.anyio

# Pages of an index and of the table, for a claim of a few rows.
FEW = 200
PAGE = 1000
_ALL = 2**60


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Connection]:
    """The daemon's session on a database with a sequential topic, which nobody vacuums."""
    await database.execute(
        "alter table inboxd.events set (autovacuum_enabled = off);"
        "insert into inboxd.topics (name, mode, source) values ('ordered', 'sequential', 'test')"
    )
    async with daemon_session(database) as connection:
        yield connection


async def insert(connection: Connection, key: str, count: int = 1) -> list[int]:
    """So many events of a key; their ids."""
    rows = await connection.fetch(
        "insert into inboxd.events (topic, type, ordering_key) select 'ordered', 'turn', $1"
        " from generate_series(1, $2::int) returning id",
        key,
        count,
    )
    return [row["id"] for row in rows]


async def line_of(connection: Connection, key: str) -> Line:
    """The line of a key."""
    return Line(
        "ordered", await connection.fetchval("select inboxd.bucket_of('ordered', $1)", key), key
    )


async def neighbour(connection: Connection, line: Line) -> str:
    """Another key of the same bucket."""
    found: str = await connection.fetchval(
        "select 'n' || n from generate_series(1, 10000) n"
        " where inboxd.bucket_of('ordered', 'n' || n) = $1 limit 1",
        line.bucket,
    )
    return found


async def touched(connection: Connection, statement: str, *arguments: object) -> int:
    """How many pages the statement touches."""
    explained = "explain (analyze, buffers, timing off, format json) " + SQL[statement]
    await connection.fetchval(explained, *arguments)  # the first time, planning reads the catalog
    (plan,) = json.loads(await connection.fetchval(explained, *arguments))
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


async def arrivals(connection: Connection, after: int, bucket: int, rows: int) -> int:
    """How many pages a claim of arrivals touches, from the cursor `after` on."""
    where: list[list[object]] = [["ordered"], [bucket], [after], [_ALL]]
    return await touched(connection, "claim_arrivals", *where, rows, rows)


async def settle(connection: Connection, ids: Sequence[int]) -> None:
    """They have succeeded."""
    await events.settle(connection, SQL, [(id_, 0.0) for id_ in ids], await join(connection))


async def block(connection: Connection, line: Line, followers: int) -> tuple[int, list[int]]:
    """A line with a dead letter at its head, and so many lined up behind it, page by page."""
    (head,) = await insert(connection, line.key)
    await lines.line_up(connection, SQL, [head])
    await connection.execute(
        "update inboxd.events set status = 'failed', fingerprint = 'f' where id = $1", head
    )
    behind = await insert(connection, line.key, followers)
    for start in range(0, followers, PAGE):
        await lines.line_up(connection, SQL, behind[start : start + PAGE])
    return head, behind


BLOCKED = pytest.mark.parametrize(
    "followers", [5_000, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.soak])]
)


@BLOCKED
async def test_others_do_not_read_what_stands_behind_a_dead_letter(
    session: Connection, followers: int
) -> None:
    """Nothing that a worker asks while a line stands still looks through its followers."""
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
        rows = await lines.claim_arrivals(session, SQL, [stretch], 10)
        assert [(row["id"], row["behind"]) for row in rows] == [(id_, False) for id_ in first]
        await settle(session, first)
    # What comes to the line goes behind the others, and that costs as little.
    late = await insert(session, "k")
    (row,) = await lines.claim_arrivals(session, SQL, [stretch], 10)
    assert (row["id"], row["behind"]) == (late[0], True)
    assert await touched(session, "line_up_events", late) < FEW


@BLOCKED
@pytest.mark.parametrize("action", ["replay", "dismiss"])
async def test_a_blocked_line_is_read_from_its_head_on(
    session: Connection, database: Database, followers: int, action: operations.Action
) -> None:
    """Once an operator acted, the followers come in their order, a page as cheap as the other.

    Another session's snapshot keeps those that were settled where they were, in front of the head.
    """
    line = await line_of(session, "k")
    head, behind = await block(session, line, followers)
    assert await lines.claim_lined_up(session, SQL, [line], PAGE) == []
    await operations.act(Session(session, SQL), "events", action, [head], actor="test")
    expected = [head, *behind] if action == "replay" else behind
    met: list[int] = []
    pages: list[int] = []
    async with database.connect() as holder, holder.transaction(isolation="repeatable_read"):
        await holder.fetch("select from inboxd.events limit 1")
        while rows := await lines.claim_lined_up(session, SQL, [line], PAGE):
            assert all(row["ready"] for row in rows)
            met += [row["id"] for row in rows]
            pages.append(await touched(session, "claim_lined_up", ["ordered"], ["k"], 1))
            await settle(session, [row["id"] for row in rows])
    assert met == expected
    # Of each page, one head has left a dead entry that the snapshot keeps.
    assert max(pages) < 20 + 2 * len(pages), pages
    assert await lines.due_heads(session, SQL, [Lane(("ordered", "turn"))], 10) == []


async def test_a_claim_takes_what_waits_of_a_key_together(session: Connection) -> None:
    """What has arrived, and what is lined up: a run of one key, and the whole of another."""
    hot, other = await line_of(session, "k"), await line_of(session, "other")
    assert hot.bucket != other.bucket
    many, few = await insert(session, "k", 50), await insert(session, "other", 3)
    buckets = [IdRange("ordered", each.bucket, 0, _ALL) for each in (hot, other)]
    rows = await lines.claim_arrivals(session, SQL, buckets, 100)
    assert [row["id"] for row in rows] == [*many, *few]
    await lines.line_up(session, SQL, [*many, *few])
    rows = await lines.claim_lined_up(session, SQL, [hot, other], 100)
    assert [row["id"] for row in rows] == [*many, *few]
    rows = await lines.claim_lined_up(session, SQL, [hot, other], 20)
    assert [row["id"] for row in rows] == many[:20]


async def test_a_claim_from_its_cursor_reads_nothing_of_what_was_settled(
    session: Connection, database: Database
) -> None:
    """Although another session's snapshot keeps all of that where it was."""
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
        assert swept > 5 * first, "the snapshot keeps what a cursor must pass by"


async def test_of_the_buckets_that_nobody_has_only_as_many_are_taken_as_are_wanted(
    database: Database, session: Connection
) -> None:
    """The first of them; the rest stays for others."""
    wanted = [("ordered", bucket) for bucket in (7, 5, 3, 1)]
    async with daemon_session(database) as other, other.transaction(), session.transaction():
        assert await lines.try_buckets(other, SQL, wanted[:1]) == wanted[:1]
        assert await lines.try_buckets(session, SQL, wanted, 2) == wanted[1:3]
        assert await lines.try_buckets(other, SQL, wanted) == [wanted[0], wanted[3]]
