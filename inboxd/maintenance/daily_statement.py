"""Makes the daily statement: closes past days, and checks that everything adds up.

A day is closed only when all past days of history are counted, and no transaction can write to it
any more. The leader detects a restored older database by the time of its last check. Known limit:
all unsettled events are read once a day, and after a count that found another number.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from inboxd.maintenance.context import MaintenanceContext
from inboxd.model import daily_statement as model
from inboxd.model.daily_statement import StatementFinding
from inboxd.store import census
from inboxd.store import daily_statement as store
from inboxd.store.daily_statement import EventsOfDay, LastCheck, StatementDue
from inboxd.store.pools import borrow
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Between two checks, if no day can be closed: after a count that may have changed, and in any case.
_SOON = timedelta(minutes=10)
_LATEST = timedelta(days=1)


@dataclass(slots=True)
class DailyStatement:
    """The leader's task. leads: whether this worker still leads. soon: time between two checks."""

    context: MaintenanceContext
    leads: Callable[[], Awaitable[bool]]
    soon: timedelta = _SOON
    _last: datetime | None = field(default=None, init=False)

    async def make(self) -> None:
        pool = self.context.pool
        async with borrow(pool) as session:
            await store.note_days(session)
            due = await store.due(session)
        if self._is_due(due) and await self.leads():
            async with (
                borrow(pool) as session,
                session.transaction(isolation="repeatable_read"),
            ):
                due = await store.due(session)
                if self._is_due(due):
                    await self._make(session, due)
                    self._last = due.now
        async with borrow(pool) as session:
            found = await store.count_findings(session)
        self.context.metrics.statement.show(found.open, found.age)

    def _is_due(self, due: StatementDue) -> bool:
        if not due.is_counted or not (due.closable or due.closed):
            return False
        if due.closable or due.checked_at is None:
            return True
        if self._last is not None and due.checked_at < self._last:
            return True
        age = due.now - due.checked_at
        is_new = due.counted_at is not None and due.counted_at > due.checked_at
        return age > _LATEST or (is_new and age >= self.soon)

    async def _make(self, session: Session, due: StatementDue) -> None:
        there = await store.open_events(session)
        uncounted = [
            day for day in await census.uncounted(session) if day.parent == "events_history"
        ]
        for day in uncounted:
            found = EventsOfDay()
            for stretch in census.stretches(day):
                await store.count_events(session, day, stretch, found)
            there.update(found.settled)
        ledger = await store.ledger(session, there, [day.part for day in uncounted])
        lines = model.add_up(
            due.closed,
            due.closable,
            counted=ledger.counted,
            fates=ledger.fates,
            moves=ledger.moves,
            duplicates=ledger.duplicates,
        )
        await store.write_lines(session, due.closable, lines)
        last = await store.last_check(session)
        found_ = [*model.differences(lines), *self._of_database(due, last)]
        found_ += await store.witnesses(session, due.today, last)
        await store.write_findings(session, found_)
        await store.note_check(session, due.now, last)
        for each in found_:
            _log.warning("the daily statement does not add up", **_fields(each))
        if due.closable:
            _log.info("made the daily statement", days=[str(day) for day in due.closable])

    def _of_database(self, due: StatementDue, last: LastCheck) -> list[StatementFinding]:
        found = []
        if self._last is not None and (last.checked_at is None or last.checked_at < self._last):
            told = (
                f"statements were checked at {self._last:%Y-%m-%dT%H:%M:%SZ}, which is not recorded"
            )
            found.append(StatementFinding(due.today, "", model.OLDER_STATE, 0, told))
        if last.was is not None and last.was != last.database:
            told = f"is {last.database}, and was {last.was}: restored from a dump, or moved"
            found.append(StatementFinding(due.today, "", model.ANOTHER_DATABASE, 0, told))
        elif last.was_timeline is not None and last.was_timeline != last.timeline:
            told = (
                f"its timeline is {last.timeline}, and was {last.was_timeline}: promoted after a "
                "failover, which may have lost commits, or recovered to a time"
            )
            found.append(StatementFinding(due.today, "", model.ANOTHER_TIMELINE, 0, told))
        return found


def _fields(each: StatementFinding) -> dict[str, object]:
    return {
        "day": str(each.day),
        "source": each.source,
        "what": each.what,
        "rows": each.rows,
        "detail": each.detail,
    }
