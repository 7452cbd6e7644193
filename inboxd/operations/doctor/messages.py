"""Are the sources of messages read, and do they get on?

Owns the checks of group "messages". Known limit: what a worker tells of a source is some seconds
old; sources of the settings that the command reads are judged, which need not be those of workers.
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
    """Which are not read, and which do not get on."""
    told: dict[str, list[ReaderRow]] = defaultdict(list)
    for row in await message_readers.listed(look.session):
        told[row["source"]].append(row)
    known = look.settings.inbound.messages
    names = sorted({*told, *(each for each in known if look.settings.knows(*_TABLE, each))})
    moved = await _moved(look)
    (now,) = await look.row("clock")
    for name in names:
        yield _judge(name, told[name], moved.get(name), now)
    if not names:
        yield Finding("messages", Verdict.OK, "there are no sources", figure=0)


async def _moved(look: Look) -> dict[str, datetime]:
    """When each source stored last, or opened a stream."""
    found: dict[str, datetime] = {}
    for row in await stream_positions.listed(look.session):
        for at in (row["stored_at"], row["opened_at"]):
            if at is not None:
                found[row["source"]] = max(at, found.get(row["source"], at))
    return found


def _judge(name: str, told: Sequence[ReaderRow], moved: datetime | None, now: datetime) -> Finding:
    subject = f"messages: {name}"
    if not told:
        remedy = f"start a worker whose settings have [inbound.messages.{name}]"
        return Finding(subject, Verdict.WARNING, "nobody reads it", remedy)
    lost = next((row for row in told if row["state"] == "lost"), None)
    if lost is not None:
        remedy = f"`inboxd messages reset {name} STREAM --to …`: where is it to go on?"
        why = lost["trouble"] or "why is withheld from this role"
        return Finding(subject, Verdict.CRITICAL, f"it is stopped: {why}", remedy)
    reading = [row for row in told if row["state"] == "reading"]
    if not reading:
        return _not_read(subject, told, now)
    lag = sum(row["lag"] or 0 for row in reading)
    found = f"read by {plural(len(reading), 'worker')}"
    if not lag or moved is None:
        return Finding(subject, Verdict.OK, found, figure=lag, unit="rows")
    still = max(0.0, (now - moved).total_seconds())
    found += f", {plural(lag, 'message')} behind, nothing stored for {span(still)}"
    remedy = "see the log of its worker; `inboxd messages list` has the positions"
    return thresholds.UNMOVED_SECONDS.find(subject, still, "seconds", found, remedy)


def _not_read(subject: str, told: Sequence[ReaderRow], now: datetime) -> Finding:
    """Of all that wait, the one that tells most."""
    row = min(told, key=lambda each: _TELLING.index(each["state"]))
    since = max(0.0, (now - row["since"]).total_seconds())
    found = f"nobody has read it for {span(since)}: {row['trouble'] or row['state']}"
    if row["state"] == "paused":
        remedy = "resume it when what it waits for is mended"
        verdict = thresholds.PAUSED_SECONDS.judge(since)
    else:
        remedy = "see to the broker or the database; it goes on by itself"
        verdict = thresholds.UNREAD_SECONDS.judge(since)
    return Finding(subject, verdict, found, remedy, since, "seconds")


_TABLE = ("inbound", "messages")
_TELLING = ("paused", "away", "failing", "standby")
