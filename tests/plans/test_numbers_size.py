"""Totals, counts and statements of many rows in sixty days are true, and read few blocks.

By default there are some thousand rows, which fit into the time of CI; `make test-large` has ten
million in the same sixty days. The blocks of a query must not grow with the rows.
"""

from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from inboxd.embedded import Server
from inboxd.maintenance import census as task
from inboxd.maintenance.census import Census
from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.daily_statement import DailyStatement
from inboxd.operations import find
from inboxd.operations.counting import count_found
from inboxd.operations.daily_statement import statement
from inboxd.operations.totals import COUNTED, Exactness, Number, count_all
from inboxd.store.connections import Connection
from inboxd.store.finding import Filter
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from inboxd.telemetry.metrics import Metrics
from tests.plans.filling import leave_alone
from tests.plans.statistics import PAGES
from tests.support import Database, ExternalServer, create, drop, eventually
from tests.support.large_history import fill, rows_a_day
from tests.support.rows import daemon_pool, settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(7200)]

BLOCKS = 2_000
DAYS, ROWS_A_DAY = 60, rows_a_day(200)
ROWS = DAYS * ROWS_A_DAY
# A day whose rows are all settled: one row of 997 is settled two days later.
STATED = datetime.now(UTC).date() - timedelta(days=10)


@dataclass(frozen=True)
class Large:
    """A large history with counts, a session that queries it, and one that counts its blocks."""

    database: Database
    session: Session
    observer: Connection

    async def blocks(self, look: Awaitable[object]) -> int:
        """The number of blocks that the query reads."""
        # Earlier statements of the other session must not be counted later.
        await self.database.execute("select pg_stat_force_next_flush()")
        await self.session.connection.execute("select pg_stat_force_next_flush()")
        before = await self.observer.fetchval(PAGES)
        await look
        await self.session.connection.execute("select pg_stat_force_next_flush()")
        return int(await self.observer.fetchval(PAGES)) - int(before)


async def _leads() -> bool:
    return True


@pytest.fixture(scope="module")
async def large(server: Server | ExternalServer, template: Database) -> AsyncIterator[Large]:
    database = create(server, template.name)
    try:
        await fill(database, "events", DAYS, ROWS_A_DAY)
        await leave_alone(database)
        await database.execute("insert into inboxd.statement_days (day) values ($1)", STATED)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(task, "_REST", 0.0)
            patch.setattr(task, "_AGAIN", 2 * DAYS)
            await _count(database)
        observer = await asyncpg.connect(database.dsn)
        async with open_session(settings_of(database)) as session:
            yield Large(database, session, observer)
        observer.terminate()
    finally:
        drop(server, database)


async def _count(database: Database) -> None:
    """Count each day once as the leader does, then make the statement."""
    async with daemon_pool(database, 2) as pool:
        context = MaintenanceContext(pool, Metrics("0"), uuid4())
        statements = DailyStatement(context, _leads)

        async def is_made() -> bool:
            await Census(context, _leads).take()
            await statements.make()
            closed = "select count(*) from inboxd.statement_days where closed_at is null"
            return bool(await database.fetchval(closed) == 0)

        await eventually(is_made, 3600)


async def test_totals_match_a_full_count(large: Large) -> None:
    for type_ in (None, "order.created", "rare.type", "none"):
        found = await count_all(large.session, "events", type_=type_)
        real = await large.database.fetchval(
            "select count(*) from inboxd.events_history where $1::text is null or type = $1", type_
        )
        if found.total.exactness is Exactness.EXACT:
            assert found.total == Number(real), type_
        else:  # today has more rows than are read
            assert real - ROWS_A_DAY <= found.total.value <= real, type_
        # Each row of today that is looked at may be in a block of its own.
        look = count_all(large.session, "events", type_=type_)
        assert await large.blocks(look) <= BLOCKS + 2 * COUNTED


async def test_statement_adds_up_and_reads_few_blocks(large: Large) -> None:
    found = await statement(large.session, STATED)
    assert found["total"]["received"] == ROWS_A_DAY
    assert found["total"]["difference"] == 0
    assert (found["findings"], found["elsewhere"]) == ([], [])
    assert await large.blocks(statement(large.session, STATED)) <= 200


FILTERS = {
    "any": Filter(),
    "common type": Filter(type="order.created"),
    "rare type": Filter(type="rare.type"),
    "absent type": Filter(type="none"),
    "rare tenant": Filter(tenant="tiny"),
    "rare error": Filter(error="blue moon"),
    "entity": Filter(entity_type="order", entity_id="7"),
    "rare status": Filter(statuses=["cancelled"]),
}


@pytest.mark.parametrize("name", FILTERS)
async def test_lists_and_counts_read_few_blocks_and_miss_nothing(large: Large, name: str) -> None:
    """The first page and the hundredth; the count names the time up to which it read."""
    wanted, below = FILTERS[name], None
    for page in range(100):
        found = await find(large.session, "events", wanted, below=below)
        if page in (0, 99):
            look = find(large.session, "events", wanted, below=below)
            assert await large.blocks(look) <= BLOCKS, page
        if (below := found.next) is None:
            break
    counted = await count_found(large.session, "events", wanted)
    if counted.total.exactness is Exactness.EXACT:
        whole = await count_found(large.session, "events", wanted, look=2 * ROWS)
        assert whole.total == counted.total
    else:
        assert counted.looked_back_to is not None
