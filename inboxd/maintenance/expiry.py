"""Expires commands, undeclared schedules, topics, subscriptions, endpoints, and open batches.

A command that has not started by its `expires_at` is cancelled, although no worker claims it.
Members of an expired batch stay unchanged until an operator closes or cancels it. A schedule, a
topic or a subscription is marked at once, and kept for a week after its last worker ended.
"""

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import batches, commands, endpoints, schedules, topics, wakeups
from inboxd.store.pools import borrow, transact
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Commands that one transaction cancels.
_PAGE = 1_000


async def expire_commands(context: MaintenanceContext) -> None:
    """Rows that other sessions hold are left for the next run."""
    full = True
    while full:
        async with transact(context.pool) as session:
            expired = await commands.expire(session, _PAGE)
            if expired:  # the next commands of their keys may run
                await wakeups.notify(session, "commands")
        for row in expired:
            context.metrics.count_expired(row["queue"], row["type"], row["commands"])
            _log.info(
                "commands have expired before they started",
                queue=row["queue"],
                type=row["type"],
                commands=row["commands"],
            )
        full = sum(row["commands"] for row in expired) == _PAGE


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
