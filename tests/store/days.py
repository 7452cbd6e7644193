"""Days of history for tests of the census and of totals: fill, count and add them up.

    await ended(database, "events", days=2, rows=3, status="cancelled")
    await take(database)
    totals = await counted(database, "events")

The partitions of these days are made by `tests.support.history.make_day`.
"""

from collections.abc import Awaitable, Callable
from uuid import uuid4

from inboxd.maintenance.census import Census
from inboxd.maintenance.context import MaintenanceContext
from inboxd.operations.totals import Totals, count_all
from inboxd.store import census
from inboxd.store.census import CountBegun, DayCount, UncountedDay
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from inboxd.telemetry.metrics import Metrics
from tests.store.retained import leads
from tests.support import Database
from tests.support.history import settle
from tests.support.rows import daemon_pool, daemon_session, settings_of

TABLES: list[HotTable] = ["events", "commands"]


async def ended(
    database: Database,
    table: str,
    days: int,
    rows: int,
    type_: str = "a.a",
    status: str = "succeeded",
    tenant: str | None = None,
) -> None:
    """Write rows that were settled `days` days ago."""
    await settle(database, days, rows, "new", f"{table}_history")
    await database.execute(
        f"update inboxd.{table}_history set type = $1, status = $2, tenant = $3 where type = 'new'",
        *(type_, status, tenant),
    )


async def take(database: Database) -> None:
    """Run the leader's task once."""
    async with daemon_pool(database, 1) as pool:
        await Census(MaintenanceContext(pool, Metrics("0"), uuid4()), leads).take()


async def counted(
    database: Database, table: HotTable, type_: str | None = None, tenant: str | None = None
) -> Totals:
    async with open_session(settings_of(database)) as session:
        return await count_all(session, table, type_=type_, tenant=tenant)


async def uncounted(database: Database, table: str) -> list[UncountedDay]:
    """The past days of a table that have no count."""
    async with daemon_session(database) as session:
        days = await census.uncounted(session)
    return [each for each in days if each.table == table and each.over]


async def _nothing() -> None:
    """Change nothing in the middle of a count."""


async def count_day(
    session: Session, each: UncountedDay, change: Callable[[], Awaitable[object]] = _nothing
) -> tuple[CountBegun, DayCount]:
    """Count a day; calls `change` before the last stretch."""
    began = await census.begin(session, each.part, each.parent)
    rows = DayCount()
    *first, last = census.stretches(each)
    for stretch in first:
        await census.count(session, each, stretch, rows)
    await change()
    await census.count(session, each, last, rows)
    return began, rows
