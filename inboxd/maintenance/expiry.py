"""Expires commands, undeclared schedules, topics, subscriptions, endpoints, and open batches.

A command that has not started by its `expires_at` is cancelled, although no worker claims it.
Members of an expired batch stay unchanged until an operator closes or cancels it. A schedule, a
topic or a subscription is marked at once, and kept for a week after its last worker ended.
"""

from collections.abc import Sequence

from inboxd.maintenance.context import MaintenanceContext
from inboxd.model.splitting import Pieces
from inboxd.store import batches, commands, endpoints, schedules, topics, wakeups
from inboxd.store.connections import Row, waits_for_lock
from inboxd.store.pools import borrow, transact
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Commands that one transaction cancels.
_PAGE = 1_000


async def expire_commands(context: MaintenanceContext) -> None:
    """Rows that other sessions hold, or that wait for such rows, are left for the next run."""
    last: Row | None = None
    while True:
        async with borrow(context.pool) as session:
            page = await commands.expired(session, last, _PAGE)
        if not page:
            return
        last = page[-1]
        parts = Pieces[Sequence[int]]([row["id"] for row in page])
        for part in parts:
            try:
                await _expire(context, part)
            except Exception as error:
                if not waits_for_lock(error):
                    raise
                parts.halve(part)


async def _expire(context: MaintenanceContext, ids: Sequence[int]) -> None:
    async with transact(context.pool) as session:
        await session.execute("wait_briefly")  # for rows that wait for these
        expired = await commands.expire(session, ids)
        if expired:  # the next commands of their keys may run
            await wakeups.notify(session, "commands")
    for row in expired:
        context.metrics.count_expired(row["queue"], row["type"], row["commands"])
    if expired:
        count = sum(row["commands"] for row in expired)
        _log.info("commands have expired before they started", commands=count)


async def expire_batches(context: MaintenanceContext) -> None:
    async with borrow(context.pool) as session:
        expired = await batches.expire(session)
    for row in expired:
        context.metrics.batches_expired.inc()
        _log.error(
            "an open batch has expired: close it or cancel it",
            batch=row["id"],
            name=row["name"],
            members=row["size"],
            expired_at=row["expires_at"].isoformat(),
        )


async def expire_schedules(context: MaintenanceContext) -> None:
    async with borrow(context.pool) as session:
        marked = await schedules.mark_undeclared(session)
        gone = await schedules.forget_undeclared(session)
    if marked:
        _log.warning("no living worker declares these schedules", schedules=marked)
    if gone:
        _log.info("removed schedules that no worker declares", schedules=gone)


async def expire_topics(context: MaintenanceContext) -> None:
    async with borrow(context.pool) as session:
        marked, unsubscribed = await topics.mark_undeclared(session)
        gone, ended = await topics.forget_undeclared(session)
    if marked:
        _log.warning("no living worker declares these topics", topics=marked)
    for row in unsubscribed:
        _log.warning(
            "no living worker declares this subscription; it is kept for a week",
            topic=row["topic"],
            type=row["type"],
        )
    if gone:
        _log.info("removed topics that no worker declares", topics=gone)
    for row in ended:
        _log.warning("a subscription has ended", topic=row["topic"], type=row["type"])


async def expire_endpoints(context: MaintenanceContext) -> None:
    """Disable them after an hour, which is longer than a restart or a deploy."""
    async with borrow(context.pool) as session:
        marked = await endpoints.mark_undeclared(session)
        gone = await endpoints.disable_undeclared(session)
    if marked:
        _log.warning("no living worker's settings have these endpoints", endpoints=marked)
    if gone:
        _log.warning("disabled endpoints that no worker's settings have", endpoints=gone)
