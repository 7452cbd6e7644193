"""Checks breakers: open by failures of their targets, or forced by operators."""

from collections.abc import AsyncIterator

from inboxd.model.wording import span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import breakers as store
from inboxd.store.breakers import BreakerRow


async def breakers(look: Look) -> AsyncIterator[Finding]:
    known = await store.listed(look.session)
    rows = [row for row in known if (row["mode"], row["state"]) != ("auto", "closed")]
    if not rows:
        yield Finding("breakers", Verdict.OK, "all are closed", figure=0)
        return
    now = await look.now()
    for row in rows:
        since = max(0.0, (now - row["changed_at"]).total_seconds())
        yield _open(row, since) if row["mode"] == "auto" else _forced(row, since)


def _open(row: BreakerRow, since: float) -> Finding:
    found = f"{row['name']} is {row['state'].replace('_', '-')}, breaks in a row: {row['opens']}"
    found += f": {row['reason']}" if row["reason"] else ""
    remedy = "repair the target; its commands continue by themselves when it is back"
    verdict = Verdict.WARNING if row["opens"] > 1 else Verdict.NOTICE
    return Finding("breakers", verdict, found, remedy, since, "seconds")


def _forced(row: BreakerRow, since: float) -> Finding:
    only = row["mode"] == "metrics_only"
    how = "is set to metrics only" if only else f"is forced {row['mode']}"
    found = f"{row['name']} {how} by {row['actor']} for {span(since)}"
    found += f": {row['forced_for']}" if row["forced_for"] else ""
    remedy = f"run `inboxd breakers auto {row['name']}` to make it automatic again"
    verdict = thresholds.PAUSED_SECONDS.judge(since)
    return Finding("breakers", verdict, found, remedy, since, "seconds")
