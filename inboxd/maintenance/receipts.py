"""Releases the receipts of sources that nobody pauses any more.

Promises that a page is released or not, whoever is killed, in the order in which they came; that
what an operator or the settings of this worker or of a living receiver pause stays held. Known
limit: whoever leads here may not have the settings of receivers elsewhere; a receiver tells which
sources its settings hold, and counts for a day after it was last heard of.
"""

from collections.abc import Collection

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import receipts
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def release_held(context: MaintenanceContext, paused: Collection[str]) -> None:
    """Release all that may be; paused: the sources that the settings hold."""
    async with borrow(context.pool) as connection:
        found = await receipts.held(connection, context.sql, most=1)
    for each in found:
        source = each["source"]
        if each["paused"] or source in paused:
            continue
        async with borrow(context.pool) as connection:
            pages = receipts.release(connection, context.sql, source)
            released = sum([count async for count in pages])
        if released:
            _log.info("released held receipts", source=source, receipts=released)
