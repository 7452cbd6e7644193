"""Lists of two hundred days: a page far back reads few days, and so few blocks.

Each page has a session of its own, as each command of the command line has: its planning reads the
head of each index of the days that it plans for. The days are small, so only their number matters.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from inboxd.embedded import Server
from inboxd.operations import find
from inboxd.operations.finding import Found
from inboxd.store.connections import Connection
from inboxd.store.finding import Filter, When
from inboxd.store.operator_sessions import open_session
from tests.plans.filling import leave_alone
from tests.plans.statistics import PAGES
from tests.support import Database, ExternalServer, create, drop
from tests.support.large_history import count_days, fill
from tests.support.rows import settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

DAYS, ROWS_A_DAY = 200, 60
# History keeps commands for ninety days by default.
DAYS_OF_COMMANDS = 90
BLOCKS = 2_000
# The heads of the indexes of all days alone are 800 blocks.
FEW_BLOCKS = 800
FAR_BACK = [int(DAYS * ROWS_A_DAY * part) for part in (0.9, 0.5, 0.02)]


@dataclass(frozen=True)
class ManyDays:
    """A history of many days, and a session that counts the blocks of others."""

    database: Database
    observer: Connection

    async def page(self, wanted: Filter, below: int | None) -> tuple[int, Found]:
        """Read a page in a new session: the blocks that it took, and the page."""
        async with open_session(settings_of(self.database)) as session:
            await session.connection.execute("select pg_stat_force_next_flush()")
            before = await self.observer.fetchval(PAGES)
            found = await find(session, "events", wanted, below=below)
            await session.connection.execute("select pg_stat_force_next_flush()")
            return int(await self.observer.fetchval(PAGES) - before), found


@pytest.fixture(scope="module")
async def many(server: Server | ExternalServer, template: Database) -> AsyncIterator[ManyDays]:
    database = create(server, template.name)
    try:
        await fill(database, "events", DAYS, ROWS_A_DAY)
        await fill(database, "commands", DAYS_OF_COMMANDS, ROWS_A_DAY // 10)
        await leave_alone(database)
        await count_days(database)
        observer = await asyncpg.connect(database.dsn)
        yield ManyDays(database, observer)
        observer.terminate()
    finally:
        drop(server, database)


@pytest.mark.parametrize("below", [None, *FAR_BACK])
async def test_page_far_back_reads_few_days(many: ManyDays, below: int | None) -> None:
    blocks, found = await many.page(Filter(), below)
    assert len(found.rows) == 20
    assert blocks <= FEW_BLOCKS


@pytest.mark.parametrize("below", [None, *FAR_BACK])
@pytest.mark.parametrize(
    "wanted",
    [
        Filter(type="none"),
        Filter(error="none"),
        Filter(commands=["succeeded"]),
        Filter(commands=["cancelled"]),
    ],
    ids=["absent type", "absent error", "commands succeeded", "commands cancelled"],
)
async def test_pages_that_find_little_read_few_blocks(
    many: ManyDays, wanted: Filter, below: int | None
) -> None:
    for _ in range(2):
        blocks, found = await many.page(wanted, below)
        assert blocks <= BLOCKS
        assert found.next is None or below is None or found.next < below
        if (below := found.next) is None:
            break


@pytest.mark.parametrize("days", [3, 60, 120, 190])
@pytest.mark.parametrize("by", ["created", "ended"])
@pytest.mark.parametrize(
    "wanted",
    [
        Filter(type="none"),
        Filter(commands=["succeeded"]),
        Filter(commands=["cancelled"]),
        Filter(commands=["pending"]),
    ],
    ids=["absent type", "commands succeeded", "commands cancelled", "commands pending"],
)
async def test_pages_with_an_end_in_time_read_few_blocks(
    many: ManyDays, wanted: Filter, by: When, days: int
) -> None:
    wanted = replace(wanted, until=datetime.now(UTC) - timedelta(days=days), by=by)
    below: int | None = None
    for _ in range(3):
        blocks, found = await many.page(wanted, below)
        assert blocks <= BLOCKS
        assert found.next is None or below is None or found.next < below
        if (below := found.next) is None:
            break


@pytest.mark.parametrize("below", FAR_BACK)
async def test_page_far_back_reads_few_days_after_an_erasure(many: ManyDays, below: int) -> None:
    """It has changed each day, and the leader has not counted them again."""
    await many.database.execute(
        "select inboxd.begin_census(part, parent) from inboxd.census where counted_at is not null"
    )
    try:
        blocks, found = await many.page(Filter(), below)
    finally:
        await count_days(many.database)
    assert len(found.rows) == 20
    assert blocks <= FEW_BLOCKS


async def test_pages_of_many_days_have_each_row_once(many: ManyDays) -> None:
    """From a place far back to the end, past rows that were settled late."""
    listed: list[int] = []
    below: int | None = FAR_BACK[1]
    while below is not None:
        async with open_session(settings_of(many.database)) as session:
            found = await find(session, "events", Filter(), below=below, limit=500)
        listed += [row["id"] for row in found.rows]
        below = found.next
    assert listed == list(range(FAR_BACK[1] - 1, 0, -1))
