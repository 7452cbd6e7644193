"""Makes the partitions of history days ahead, so that settled rows have room.

Without a partition for today the processors are paused, so that each claimed row can be settled.
Any worker makes partitions if tomorrow's are missing. Known limit: the days are UTC.
"""

from collections.abc import Awaitable, Callable, Sequence

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import partitions
from inboxd.store.partitions import Apart
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_FEW_DAYS = 2
_DAYS_AT_ONCE = 14


async def make_partitions(
    context: MaintenanceContext,
    ahead: int,
    hold: Callable[[str | None], None],
    leads: Callable[[], Awaitable[bool]],
) -> None:
    """hold: called with the reason why no row can be settled, or None. ahead: in days."""
    days, apart = await _look(context, ahead)
    try:
        if days < 1 or (days < ahead and await leads()):
            await _make(context, ahead)
            days, apart = await _look(context, ahead)
    finally:
        context.metrics.partitions_ahead.set(days)
        missing = _missing(apart)
        hold(missing if days < 0 else None)
        if days < 0:
            _log.error(missing)
        elif days < _FEW_DAYS:
            _log.warning(
                "history has partitions for a few days only",
                days_ahead=days,
                detached=[each.part for each in apart],
            )


async def _make(context: MaintenanceContext, ahead: int) -> None:
    """A few days at a time: a day locks two dozen relations, and the server has limited room."""
    for days in (*range(_DAYS_AT_ONCE, ahead, _DAYS_AT_ONCE), ahead):
        async with borrow(context.pool) as session:
            await partitions.make(session, days)


async def _look(context: MaintenanceContext, ahead: int) -> tuple[int, list[Apart]]:
    """How many days ahead have partitions; and, if these are few, detached ones in the way."""
    async with borrow(context.pool) as session:
        days = await partitions.days_ahead(session)
        apart = await partitions.apart(session) if days < ahead else []
    return days, [each for each in apart if each.ahead >= 0]


def _missing(in_the_way: Sequence[Apart]) -> str:
    missing = "history has no partition for today: nothing is claimed until there is one"
    if in_the_way:
        missing += f"; {in_the_way[0].part} is there, detached: attach it again, or rename it"
    return missing
