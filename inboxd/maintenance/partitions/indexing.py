"""Makes indexes of past days, by which lists find rare rows quickly.

An hour after its day, one after the other, newest first, with a rest after each of the same
duration. No settlement waits for an index; a partition in use is left for the next run.
"""

from collections.abc import Awaitable, Callable

import anyio

from inboxd.errors import PartitionBusy
from inboxd.maintenance.partitions.retention import PATIENT
from inboxd.settings import Settings
from inboxd.store import partitions
from inboxd.store.session import connect
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds after which the remaining indexes are left to the next run.
_LONGEST_SECONDS = 60.0


async def make_indexes(settings: Settings, leads: Callable[[], Awaitable[bool]]) -> None:
    """Make indexes for a while, if the settings want them; leads: whether this worker leads."""
    if not settings.history.indexes:
        return
    session = await connect(settings.database, "indexing", plans=PATIENT)
    try:
        began = anyio.current_time()
        for part, what in await partitions.missing_indexes(session):
            if anyio.current_time() - began > _LONGEST_SECONDS or not await leads():
                return
            now = anyio.current_time()
            try:
                await partitions.index(session, part, what)
            except PartitionBusy as error:
                _log.info("partition is busy", partition=part, reason=str(error))
            await anyio.sleep(anyio.current_time() - now)
    finally:
        session.connection.terminate()
