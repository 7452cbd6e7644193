"""Sends schedules at their times, up to a second late; the first worker that asks sends."""

from collections.abc import Sequence

from inboxd.api.cron import LATE, MOST
from inboxd.maintenance.context import MaintenanceContext
from inboxd.model.outcome import explain
from inboxd.store import schedules
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def send_schedules(context: MaintenanceContext, declared: Sequence[str]) -> None:
    """Each run has its own transaction; a schedule that cannot be sent delays no other."""
    had: list[str] = []
    while sent := await schedules.send_due(context.pool, declared, had):
        _report(sent)
        count = context.metrics.schedule_runs.labels(sent.name, _outcome(sent))
        count.inc(max(1, len(sent.times)))
        had.append(sent.name)


def _outcome(sent: schedules.SentSchedule) -> str:
    if sent.error is not None:
        return "failed"
    return "sent" if sent.times else "skipped"


def _report(sent: schedules.SentSchedule) -> None:
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
        _log.warning("older missed runs are not sent", schedule=sent.name, since=since, most=MOST)
