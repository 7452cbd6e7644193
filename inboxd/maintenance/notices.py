"""Sends notices, each worth waking a person, as events of the topic in the settings.

One event when a cause begins, and one when it has been gone for a while. A stale sample begins and
ends no notice.
"""

from typing import Any

from inboxd.maintenance.context import MaintenanceContext
from inboxd.model.notices import (
    BEGAN,
    ENDED,
    Cause,
    CauseFigures,
    End,
    NoticeRules,
    look,
    sentence,
)
from inboxd.settings import Settings
from inboxd.store import notices, samples
from inboxd.store.connections import Row
from inboxd.store.pools import transact
from inboxd.store.queues import HOLDERS
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


class NoticeTask:
    def __init__(self, context: MaintenanceContext, settings: Settings, topic: str) -> None:
        """topic: the topic of the emitted events."""
        given = settings.notices
        age = given.backlog_age
        self._context, self._settings, self._settled = context, settings, given.settled
        self._rules = NoticeRules(
            topic=topic,
            dead_letters=given.dead_letters,
            blocked_keys=given.blocked_keys,
            breakers=given.breakers,
            backlog_rows=given.backlog_rows,
            backlog_age=None if age is None else age.total_seconds(),
            most_keys=HOLDERS,
        )

    async def tell(self) -> None:
        async with transact(self._context.pool) as session:
            sample = await samples.newest(session)
            if sample is None or not sample.is_fresh(self._settings):
                return
            rules = self._rules
            seen = look(rules, sample.counts, await notices.open_breakers(session))
            for row in await notices.begin(session, seen.there):
                await self._tell(session, row, seen.there[_cause(row)])
            open_ = [_cause(row) for row in await notices.open_ones(session)]
            unwatched = [cause for cause in open_ if not rules.watches(cause)]
            for row in await notices.close(session, unwatched):
                await self._tell(session, row, CauseFigures(), "unwatched")
            there = {*seen.there, *filter(seen.unsure, open_)}
            for row in await notices.end(session, there, self._settled):
                await self._tell(session, row, CauseFigures(), "gone")
            await notices.forget(session)

    async def _tell(
        self, session: Session, row: Row, figures: CauseFigures, end: End | None = None
    ) -> None:
        text = sentence(_cause(row), figures, end)
        payload: dict[str, Any] = {
            "notice": row["id"],
            "cause": row["cause"],
            "kind": row["kind"] or None,
            "subject": row["subject"],
            "text": text,
            "rows": figures.rows,
            "at_least": figures.at_least,
            "seconds": figures.seconds,
            "began_at": row["began_at"],
            "ended_at": row.get("ended_at"),
            "end": end,
        }
        type_ = BEGAN if end is None else ENDED
        await notices.tell(session, self._rules.topic, type_, row, payload)
        _log.info("notice", notice=row["id"], text=text, end=end)


async def close_notices(context: MaintenanceContext) -> None:
    """Close the open notices without an event, if no topic is set."""
    async with transact(context.pool) as session:
        open_ = [_cause(row) for row in await notices.open_ones(session)]
        if open_:
            await notices.close(session, open_)


def _cause(row: Row) -> Cause:
    return Cause(row["cause"], row["kind"], row["subject"])
