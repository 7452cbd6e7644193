"""Checks that this worker can see all rows: otherwise it claims nothing, and is not ready."""

from collections.abc import Callable

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import row_security
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def look(context: MaintenanceContext, hold: Callable[[str | None], None]) -> None:
    """Call `hold` with the reason why rows are hidden from this worker, or with None."""
    async with borrow(context.pool) as session:
        reason = await row_security.hidden(session)
    hold(reason)
    if reason is not None:
        _log.error("rows are hidden from this worker; nothing is claimed", reason=reason)
