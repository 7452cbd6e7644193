"""Looks whether this worker sees the rows that are there.

Owns the rule that a worker from which rows are hidden claims nothing, so that it is not ready: row
level security would let it look idle. Known limit: what is switched on is noticed at the next look.
*See:* `store/row_security.py`.
"""

from collections.abc import Callable

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import row_security
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def look(context: MaintenanceContext, hold: Callable[[str | None], None]) -> None:
    """Call `hold` with the reason why it does not see all rows, or None."""
    async with borrow(context.pool) as connection:
        reason = await row_security.hidden(connection, context.sql)
    hold(reason)
    if reason is not None:
        _log.error("rows are hidden from this worker; nothing is claimed", reason=reason)
