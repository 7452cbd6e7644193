"""Writes the counts of this worker, and rolls up the counts of all workers.

Counts that could not be written are kept for the next run; a cancelled run knows whether its counts
were written; a roll-up that does not commit is repeated, and its rows count once.
"""

from datetime import timedelta

import anyio

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import statistics
from inboxd.store.pools import borrow, transact
from inboxd.telemetry.tally import OTHER, Statistic

# Rows per transaction, and seconds per run.
_PAGE = 2_000
_LONGEST_SECONDS = 10.0
# Age at which a minute is over, and each worker has written its counts.
_AGE = timedelta(seconds=75)


async def write_statistics(context: MaintenanceContext, *, is_last: bool = False) -> None:
    """is_last: no run follows, so a cancellation may interrupt the write."""
    tally = context.metrics.tally
    counts = tally.drain_statistics()
    if not counts:
        return
    try:
        with anyio.CancelScope() as scope:
            async with borrow(context.pool) as session:
                tenants = {each.key.tenant for each in counts if each.key.tenant is not None}
                if tenants := tenants - {OTHER}:
                    admitted = await statistics.admit_tenants(session, tenants, tally.most_tenants)
                    tally.admit_tenants(admitted)
                    counts = [_named(each, admitted) for each in counts]
                # A cancellation waits for the commit, up to the session's time-out.
                scope.shield = not is_last
                await statistics.write(session, counts, tally.clock)
    except BaseException:
        tally.restore_statistics(counts)
        raise


def _named(each: Statistic, admitted: set[str]) -> Statistic:
    """The statistic with `(other)` as its tenant, if its own tenant is not counted separately."""
    if each.key.tenant is None or each.key.tenant in admitted:
        return each
    return each._replace(key=each.key._replace(tenant=OTHER))


async def roll_up_statistics(context: MaintenanceContext) -> None:
    until = anyio.current_time() + _LONGEST_SECONDS
    more = True
    while more and anyio.current_time() < until:
        async with transact(context.pool) as session:
            taken = await statistics.take_over(session, _PAGE)
            rolled = await statistics.roll_up(session, _PAGE, _AGE)
        more = _PAGE in (taken, rolled)
