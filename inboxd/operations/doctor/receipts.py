"""Checks received webhooks: contradictions, broken bodies, held receipts.

Known limit: it counts among unsettled dead letters, at most 10,000 of each type.
"""

from collections.abc import AsyncIterator

from inboxd.model.wording import plural, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import listing, receipts

# Subject, prefix of fingerprints (as `write_received` and `judge_event` make them), found, remedy.
_KINDS = (
    (
        "contradictions",
        "dedup-conflict:",
        "came with the dedup key of another body",
        "ask the sender which one is right; `inboxd failures list`, then replay or dismiss",
    ),
    (
        "broken bodies",
        "broken:",
        "could not become events",
        "`inboxd failures list` has the reason: correct the source's settings, or tell the sender",
    ),
)


async def doubtful(look: Look) -> AsyncIterator[Finding]:
    """Find dead letters that a sender caused."""
    lanes = await listing.lanes(look.session, "events")
    types = {row["type"] for row in lanes if row["failed"]}
    for subject, begins, what, remedy in _KINDS:
        fingerprints = [begins + each for each in sorted(types)]
        for row in await look.rows("doctor_receipts", fingerprints, thresholds.COUNTED):
            more = "+" if row["rows"] >= thresholds.COUNTED else ""
            found = f"{row['rows']:,}{more} {what}, the last {span(row['newest'])} ago"
            fresh = row["newest"] < thresholds.DOUBTFUL_FRESH_SECONDS
            verdict = Verdict.WARNING if fresh else Verdict.NOTICE
            name = f"{subject}: {row['source']}"
            yield Finding(name, verdict, found, remedy, row["rows"], "rows")


async def held(look: Look) -> AsyncIterator[Finding]:
    session = look.session
    for row in await receipts.held(session, thresholds.COUNTED):
        (now,) = await look.row("clock")
        age = max(0.0, (now - row["held_at"]).total_seconds())
        more = "+" if row["receipts"] >= thresholds.COUNTED else ""
        found = f"{plural(row['receipts'], 'receipt')}{more}, the oldest for {span(age)}"
        source = row["source"]
        remedy = (
            f"run `inboxd webhooks resume {source}` when its handlers are repaired"
            if row["paused"]
            else "the leader releases them: start a worker if none runs"
        )
        yield thresholds.HELD_SECONDS.find(f"held: {source}", age, "seconds", found, remedy)
