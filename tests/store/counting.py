"""Rows of statistics: tests write them as a worker does, and roll them up as the leader does.

    await empty(database)
    await write(session, counted(ago=90, type_="order.paid"), counted(outcome="failed"))
    await roll_up(session)

The tally's clock shows 0: `ago` counts seconds before it.
"""

from inboxd.model.durations import Durations
from inboxd.store import statistics
from inboxd.store.session import Session
from inboxd.telemetry.tally import Statistic, StatisticKey
from tests.support import Database

TABLES = (
    *("stats", "stats_written", "stats_series", "stats_minutes", "stats_hours", "stats_days"),
    *("stats_tenants", "stats_tenant_hours", "stats_tenant_days"),
)


async def empty(database: Database) -> None:
    """Delete all rows of all tables of statistics."""
    await database.execute(f"truncate {', '.join(f'inboxd.{name}' for name in TABLES)}")


def of(*seconds: float) -> Durations:
    """A histogram of these durations."""
    found = Durations()
    if seconds:
        found.fold(sorted(seconds), sum(seconds))
    return found


def counted(
    ago: float = 0.0,
    *,
    kind: str = "event",
    lane: str = "news",
    type_: str = "a",
    outcome: str = "succeeded",
    after: str = "",
    tenant: str | None = None,
    took: tuple[float, ...] = (1.0,),
) -> Statistic:
    """A row whose second ended `ago` seconds before the tally's clock shows 0."""
    key = StatisticKey(-ago, kind, lane, type_, outcome, after, tenant)  # type: ignore[arg-type]
    done = of(*(2 * each for each in took)) if outcome == "succeeded" else Durations()
    return Statistic(key, len(took), of(*took), of(*took, *took), done)


async def write(session: Session, *rows: Statistic) -> None:
    """Write as a worker does, while the tally's clock shows 0."""
    await statistics.write(session, rows, lambda: 0.0)


async def roll_up(session: Session, rows: int = 100) -> int:
    """Take over and roll up, as the leader does; returns the number of rows."""
    async with session.transaction(isolation="read_committed"):
        taken = await statistics.take_over(session, rows)
        return taken + await statistics.roll_up(session, rows)


async def count_of(session: Session, table: str) -> int:
    return int(await session.connection.fetchval(f"select count(*) from inboxd.{table}"))
