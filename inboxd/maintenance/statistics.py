"""Writes counts to the stats table, and shows the backlog in the metrics.

Promises that counts which could not be written are kept for the next run.
*See:* `inboxd.store.statistics`.
"""

from collections.abc import Mapping

from inboxd.maintenance.context import MaintenanceContext
from inboxd.settings import Queue
from inboxd.store import intakes, lines, queues, receipts, schedules, statistics
from inboxd.store.pools import borrow


async def write_statistics(context: MaintenanceContext) -> None:
    """Write what this worker has counted since it was last written."""
    counts = context.metrics.tally.drain_statistics()
    if not counts:
        return
    try:
        async with borrow(context.pool) as connection:
            await statistics.add(connection, context.sql, context.me, counts)
    except BaseException:
        context.metrics.tally.restore_statistics(counts)
        raise


async def show_backlog(context: MaintenanceContext, settings: Mapping[str, Queue]) -> None:
    """Show what is unsettled, blocked or held, and the last run of each schedule.

    `settings` are those of the queues.
    """
    sql, metrics = context.sql, context.metrics
    async with borrow(context.pool) as connection:
        events = await statistics.event_backlog(connection, sql)
        commands = await statistics.command_backlog(connection, sql)
        blocked = await queues.blocked(connection, sql, settings)
        standing = await lines.count_blocked(connection, sql)
        held = await intakes.held(connection, sql)
        sent = await schedules.last_runs(connection, sql)
        waiting = await receipts.held(connection, sql)
    metrics.show_backlog(events, commands)
    metrics.show_blocked(blocked)
    metrics.show_blocked_lines(standing)
    metrics.held_topics.set(held)
    metrics.show_schedules(sent)
    metrics.webhooks.show_held((e["source"], e["receipts"], e["held_at"]) for e in waiting)
