"""Lists of millions of rows in sixty days: each page reads few blocks, whatever its filter is.

The test counts all blocks of our tables and indexes that the server reads for a page, also for its
planning: for the first page and the hundredth, by every filter, for common, rare and absent values;
with the indexes of past days, and without. By default the rows fit into some minutes;
INBOXD_TEST_ROWS_A_DAY sets another number.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from inboxd.embedded import Server
from inboxd.operations import containing, find
from inboxd.store.connections import Connection
from inboxd.store.finding import Filter, When
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from tests.plans.filling import leave_alone
from tests.plans.statistics import PAGES
from tests.support import Database, ExternalServer, create, drop, eventually
from tests.support.large_history import count_days, fill, rows_a_day
from tests.support.rows import settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(1800)]

BLOCKS = 2_000
DAYS, ROWS_A_DAY = 60, rows_a_day(25_000)
_LONG_AGO = datetime.now(UTC) - timedelta(days=30)
_BY: tuple[When, ...] = ("ended", "failed", "done", "waiting")

FILTERS = {
    "any": Filter(),
    "common type": Filter(type="order.created"),
    "rare type": Filter(type="rare.type"),
    "absent type": Filter(type="none"),
    "common tenant": Filter(tenant="acme"),
    "rare tenant": Filter(tenant="tiny"),
    "absent tenant": Filter(tenant="none"),
    "entity": Filter(entity_type="order", entity_id="4711"),
    "absent entity": Filter(entity_type="order", entity_id="none"),
    "common status": Filter(statuses=["succeeded"]),
    "rare status": Filter(statuses=["cancelled"]),
    "absent status": Filter(statuses=["dismissed"], type="order.created", tenant="none"),
    "unsettled": Filter(statuses=["pending", "failed"]),
    "common error": Filter(error="no answer"),
    "rare error": Filter(error="blue moon"),
    "absent error": Filter(error="none"),
    "common payload": Filter(payload=containing("shop=1")),
    "rare payload": Filter(payload=containing("rare=true")),
    "absent payload": Filter(payload=containing("order_id=none")),
    "an hour long ago": Filter(since=_LONG_AGO - timedelta(hours=1), until=_LONG_AGO),
    "nothing of an hour long ago": Filter(
        since=_LONG_AGO - timedelta(hours=1), until=_LONG_AGO, type="none"
    ),
    **{
        f"{by} in an hour long ago": Filter(
            since=_LONG_AGO - timedelta(hours=1), until=_LONG_AGO, by=by
        )
        for by in _BY
    },
    "nothing ended in an hour long ago": Filter(
        since=_LONG_AGO - timedelta(hours=1), until=_LONG_AGO, by="ended", type="none"
    ),
    "ten minutes": Filter(since=datetime.now(UTC) - timedelta(minutes=10), type="none"),
}
_PAGE = 20  # rows of a page, if no limit is given
TO_THE_HUNDREDTH = ("common type", "rare tenant", "common error", "commands succeeded")
OF_COMMANDS = {
    "commands succeeded": Filter(commands=["succeeded"]),
    "commands cancelled": Filter(commands=["cancelled"]),
    "commands failed": Filter(commands=["failed"]),
}


@dataclass(frozen=True)
class Large:
    """A large history, a session that lists it, and one that counts its blocks."""

    session: Session
    observer: Connection


@pytest.fixture(scope="module", params=["without indexes", "with indexes"])
async def large(
    request: pytest.FixtureRequest, server: Server | ExternalServer, template: Database
) -> AsyncIterator[Large]:
    """A large history, with the leader's indexes or without."""
    database = create(server, template.name)
    try:
        await fill(database, "events", DAYS, ROWS_A_DAY)
        await fill(database, "commands", DAYS, ROWS_A_DAY // 10)
        if request.param == "with indexes":
            await _index(database)
        await count_days(database)
        await leave_alone(database)
        observer = await asyncpg.connect(database.dsn)
        async with open_session(settings_of(database)) as session:
            yield Large(session, observer)
        observer.terminate()
    finally:
        drop(server, database)


async def _is_indexed(database: Database, part: str, what: str) -> bool:
    """Make the index; false if a vacuum is in the way, which is left alone, as by the leader."""
    try:
        await database.execute(f"select inboxd.index_partition('{part}', '{what}')")
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def _index(database: Database) -> None:
    """Make indexes as the leader does, for all days but today."""
    days = "select part from inboxd.partitions where parent <> 'bodies' and high < now()"
    for (part,) in await database.fetch(days):
        for what in ("type", "tenant", "entity"):
            await eventually(partial(_is_indexed, database, part, what), 60)
    await database.execute("vacuum analyze")


async def _blocks(large: Large, wanted: Filter, below: int | None, **more: Any) -> tuple[int, Any]:
    """The blocks that a page reads, and the page."""
    connection = large.session.connection
    await connection.execute("select pg_stat_force_next_flush()")
    before = await large.observer.fetchval(PAGES)
    found = await find(large.session, "events", wanted, below=below, **more)
    await connection.execute("select pg_stat_force_next_flush()")
    return await large.observer.fetchval(PAGES) - before, found


@pytest.mark.parametrize("name", [*FILTERS, *OF_COMMANDS])
async def test_every_page_reads_few_blocks(large: Large, name: str) -> None:
    """The first pages, and pages far back; up to the hundredth for some lists."""
    wanted = (FILTERS | OF_COMMANDS)[name]
    read = await _read(large, wanted, None, 100 if name in TO_THE_HUNDREDTH else 3)
    for part in (0.9, 0.5, 0.02):
        read += await _read(large, wanted, int(DAYS * ROWS_A_DAY * part), 2)
    assert max(read) <= BLOCKS, f"page {read.index(max(read)) + 1} of {len(read)}"


async def _read(large: Large, wanted: Filter, below: int | None, pages: int) -> list[int]:
    """The blocks of each of the next `pages` pages, or up to the end."""
    read = []
    for _ in range(pages):
        blocks, found = await _blocks(large, wanted, below)
        read.append(blocks)
        if (below := found.next) is None:
            break
    return read


@pytest.mark.parametrize("name", ["rare type", "rare tenant", "entity"])
async def test_rare_rows_are_found_at_once_in_days_with_indexes(
    large: Large, name: str, request: pytest.FixtureRequest
) -> None:
    """The newest days have no indexes; on older days every page but the last is full."""
    short, below = 0, int(DAYS * ROWS_A_DAY * 0.9)
    for _ in range(100):
        _, found = await _blocks(large, FILTERS[name], below)
        if (below := found.next) is None:
            break
        short += len(found.rows) < _PAGE
    if "with indexes" in request.node.name:
        assert below is None
        assert short == 0
    else:
        assert short > 15, "pages are full even without indexes"


async def test_hour_long_ago_is_found_without_reading_newer_days(large: Large) -> None:
    wanted = replace(FILTERS["an hour long ago"], type="none")
    _, found = await _blocks(large, wanted, None)
    assert found.next is None, "more than one page was needed"
    assert found.looked < ROWS_A_DAY
