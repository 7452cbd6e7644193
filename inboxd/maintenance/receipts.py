"""Releases the held receipts of sources that are no longer paused.

A page is released as a whole, in the order of its receipts. Receipts stay held while an operator,
this worker's settings or the settings of a live receiver pause their source; a receiver's last
report counts for a day. A source that cannot be released delays no other source.
"""

from collections.abc import Collection

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import receipts
from inboxd.store.connections import is_away
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def release_held(context: MaintenanceContext, paused: Collection[str]) -> None:
    """Release all receipts that are not paused; paused: sources that the settings pause."""
    async with borrow(context.pool) as session:
        found = await receipts.held(session, most=1)
    errors = []
    for each in found:
        if each["paused"] or each["source"] in paused:
            continue
        try:
            await _release(context, each["source"])
        except Exception as error:
            if is_away(error):
                raise
            errors.append(error)
    if errors:
        raise errors[0]


async def _release(context: MaintenanceContext, source: str) -> None:
    async with borrow(context.pool) as session:
        pages = receipts.release(session, source)
        released = sum([count async for count in pages])
    if released:
        _log.info("released held receipts", source=source, receipts=released)
