"""Schedules: sent when their time comes, by whichever worker is there first.

Owns the two duties: sending, and noticing which schedules nobody declares any more. Promises that
a schedule which cannot be sent keeps no other from being sent, and is tried again at each turn.
Known limit: a turn a second, so a run comes up to a second after its time.
"""

from collections.abc import Sequence

from inboxd.api.cron import LATE, MOST
from inboxd.model.outcome import explain
from inboxd.store import schedules
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)


class Schedules:
    """Sends what this worker declares."""

    def __init__(self, pool: Pool, sql: Statements, metrics: Metrics, names: Sequence[str]) -> None:
        """Send the schedules of these names."""
        self._pool = pool
        self._sql = sql
        self._metrics = metrics
        self._names = names

    async def send(self) -> None:
        """Send whatever is due, each schedule in a transaction of its own."""
        names = list(self._names)
        while names and (sent := await schedules.send_due(self._pool, self._sql, names)):
            _report(sent)
            count = self._metrics.schedule_runs.labels(sent.name, _outcome(sent))
            count.inc(max(1, len(sent.times)))
            names.remove(sent.name)


class Undeclared:
    """One turn: mark those that nobody declares any more, and forget them after a week."""

    def __init__(self, pool: Pool, sql: Statements) -> None:
        """Look after all schedules, whoever declared them."""
        self._pool = pool
        self._sql = sql

    async def turn(self) -> None:
        """Look once."""
        async with borrow(self._pool) as connection:
            marked = await schedules.mark_undeclared(connection, self._sql)
            gone = await schedules.forget_undeclared(connection, self._sql)
        if marked:
            _log.warning("no living worker declares these schedules", schedules=marked)
        if gone:
            _log.info("removed schedules that nobody declares", schedules=gone)


def _outcome(sent: schedules.Sent) -> str:
    if sent.error is not None:
        return "failed"
    return "sent" if sent.times else "skipped"


def _report(sent: schedules.Sent) -> None:
    if sent.error is not None:
        # Not exc_info: a driver's error quotes rows.
        reason = explain(sent.error).error
        _log.error("schedule cannot be sent", schedule=sent.name, reason=reason)
        return
    runs, since = len(sent.times), sent.since.isoformat()
    if not runs:
        _log.warning(
            "a run was missed and skipped", schedule=sent.name, since=since, late=str(LATE)
        )
        return
    _log.info("schedule", schedule=sent.name, runs=runs, last=sent.times[-1].isoformat())
    if sent.cut:
        _log.warning("older runs are not made up for", schedule=sent.name, since=since, most=MOST)
