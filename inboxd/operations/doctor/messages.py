"""Checks whether sources of messages are read and make progress.

Known limits: workers' reports are some seconds old; it checks the sources of its own settings.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from inboxd.model.wording import plural, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import message_readers, stream_positions
from inboxd.store.message_readers import ReaderRow


async def sources(look: Look) -> AsyncIterator[Finding]:
    reports: dict[str, list[ReaderRow]] = defaultdict(list)
    for row in await message_readers.listed(look.session):
        reports[row["source"]].append(row)
    known = look.settings.inbound.messages
    names = sorted({*reports, *(each for each in known if look.settings.knows(*_TABLE, each))})
    moved = await _moved(look)
    now = await look.now()
    for name in names:
        yield _judge(name, reports[name], moved.get(name), now)
    if not names:
        yield Finding("messages", Verdict.OK, "there are no sources", figure=0)


async def _moved(look: Look) -> dict[str, datetime]:
    """Return when each source last stored a page or opened a stream."""
    found: dict[str, datetime] = {}
    for row in await stream_positions.listed(look.session):
        for at in (row["stored_at"], row["opened_at"]):
            if at is not None:
                found[row["source"]] = max(at, found.get(row["source"], at))
    return found


def _judge(
    name: str, reports: Sequence[ReaderRow], moved: datetime | None, now: datetime
) -> Finding:
    subject = f"messages: {name}"
    if not reports:
        remedy = f"start a worker whose settings have [inbound.messages.{name}]"
        return Finding(subject, Verdict.WARNING, "no worker reads it", remedy)
    lost = next((row for row in reports if row["state"] == "lost"), None)
    if lost is not None:
        remedy = f"run `inboxd messages reset {name} STREAM --to …` to say where it continues"
        why = lost["trouble"] or "the reason is withheld from this role"
        return Finding(subject, Verdict.CRITICAL, f"it is stopped: {why}", remedy)
    reading = [row for row in reports if row["state"] == "reading"]
    if not reading:
        return _not_read(subject, reports, now)
    lag = sum(row["lag"] or 0 for row in reading)
    found = f"read by {plural(len(reading), 'worker')}"
    if not lag and any(row["lag"] is None for row in reading):
        remedy = "run `inboxd messages verify`, which asks the broker"
        found += "; how many messages it is behind is unknown"
        return Finding(subject, Verdict.NOTICE, found, remedy)
    if not lag or moved is None:
        return Finding(subject, Verdict.OK, found, figure=lag, unit="rows")
    still = max(0.0, (now - moved).total_seconds())
    found += f", {plural(lag, 'message')} behind, nothing stored for {span(still)}"
    remedy = "see the log of its worker; `inboxd messages list` shows the positions"
    return thresholds.UNMOVED_SECONDS.find(subject, still, "seconds", found, remedy)


def _not_read(subject: str, reports: Sequence[ReaderRow], now: datetime) -> Finding:
    row = min(reports, key=lambda each: _STATES.index(each["state"]))
    since = max(0.0, (now - row["since"]).total_seconds())
    found = f"no worker has read it for {span(since)}: {row['trouble'] or row['state']}"
    if row["state"] == "paused":
        remedy = "resume it when the reason of the pause is gone"
        verdict = thresholds.PAUSED_SECONDS.judge(since)
    else:
        remedy = "repair the broker or the database; reading then continues by itself"
        verdict = thresholds.UNREAD_SECONDS.judge(since)
    return Finding(subject, verdict, found, remedy, since, "seconds")


_TABLE = ("inbound", "messages")
# States of workers, the most informative first.
_STATES = ("paused", "away", "failing", "standby")
