"""Makes the daily statement: closes days that are over, and looks whether all adds up still.

Promises that a day is closed when all days of history that are over are counted, and no transaction
may write to it any more; that everything is added up in one snapshot; and that the leader knows a
database whose statements are of before its own last look: an older state was restored meanwhile.
Known limit: unsettled events are read through to the last, once a day, or after a count that found
something else.
*See:* `inboxd.maintenance.census`, which counts; `inboxd.model.daily_statement`; docs/statement.md.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from inboxd.maintenance.context import MaintenanceContext
from inboxd.model import daily_statement as model
from inboxd.model.daily_statement import StatementFinding
from inboxd.store import census
from inboxd.store import daily_statement as store
from inboxd.store.connections import Connection
from inboxd.store.daily_statement import EventsOfDay, LastCheck, StatementDue
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Between two looks, if no day is to be closed: after a count that may have found something else,
# and in any case.
_SOON = timedelta(minutes=10)
_LATEST = timedelta(days=1)


@dataclass(slots=True)
class DailyStatement:
    """The task of the leader; leads: whether this worker leads still. soon: between two looks."""

    context: MaintenanceContext
    leads: Callable[[], Awaitable[bool]]
    soon: timedelta = _SOON
    _last: datetime | None = field(default=None, init=False)

    async def make(self) -> None:
        """Close what is to be closed, look at what is, and show what does not add up."""
        pool, sql = self.context.pool, self.context.sql
        async with borrow(pool) as connection:
            await store.note_days(connection, sql)
            due = await store.due(connection, sql)
        if self._is_due(due) and await self.leads():
            async with (
                borrow(pool) as connection,
                connection.transaction(isolation="repeatable_read"),
            ):
                due = await store.due(connection, sql)
                if self._is_due(due):
                    await self._make(connection, due)
                    self._last = due.now
        async with borrow(pool) as connection:
            found = await store.count_findings(connection, sql)
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

    async def _make(self, connection: Connection, due: StatementDue) -> None:
        sql = self.context.sql
        there = await store.open_events(connection, sql)
        uncounted = [
            day for day in await census.uncounted(connection, sql) if day.parent == "events_history"
        ]
        for day in uncounted:
            found = EventsOfDay()
            for stretch in census.stretches(day):
                await store.count_events(connection, sql, day, stretch, found)
            there.update(found.settled)
        ledger = await store.ledger(connection, sql, there, [day.part for day in uncounted])
        lines = model.add_up(
            due.closed,
            due.closable,
            counted=ledger.counted,
            fates=ledger.fates,
            moves=ledger.moves,
            duplicates=ledger.duplicates,
        )
        await store.write_lines(connection, sql, due.closable, lines)
        last = await store.last_check(connection, sql)
        found_ = [*model.differences(lines), *self._of_database(due, last)]
        found_ += await store.witnesses(connection, sql, due.today, last)
        await store.write_findings(connection, sql, found_)
        await store.note_check(connection, sql, due.now, last)
        for each in found_:
            _log.warning("the daily statement does not add up", **_told(each))
        if due.closable:
            _log.info("made the daily statement", days=[str(day) for day in due.closable])

    def _of_database(self, due: StatementDue, last: LastCheck) -> list[StatementFinding]:
        """Whether this is the database that it was."""
        found = []
        if self._last is not None and (last.checked_at is None or last.checked_at < self._last):
            told = f"statements were looked at {self._last:%Y-%m-%dT%H:%M:%SZ}: nothing says so"
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


def _told(each: StatementFinding) -> dict[str, object]:
    return {
        "day": str(each.day),
        "source": each.source,
        "what": each.what,
        "rows": each.rows,
        "detail": each.detail,
    }
