"""Checks whether relays publish.

Known limit: it does not notice a broker that is away while no events wait for it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from inboxd.model.wording import plural, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import breakers, controls, listing, topics
from inboxd.store.breakers import BreakerRow


@dataclass(frozen=True, slots=True)
class _Relay:
    """oldest: seconds of waiting. error: of the last refused event that is retried. shut: open."""

    name: str
    waiting: int
    oldest: float
    retried: int
    error: str | None
    dead: int
    paused: bool
    shut: BreakerRow | None


async def relays(look: Look) -> AsyncIterator[Finding]:
    found = [each async for each in _relays(look)]
    for each in found:
        for finding in _judge(each):
            yield finding
    if not found:
        yield Finding("relays", Verdict.OK, "there are no relays", figure=0)


async def _relays(look: Look) -> AsyncIterator[_Relay]:
    rows = await look.rows("doctor_relays", thresholds.COUNTED)
    if not rows:
        return
    stopped = await controls.read(look.session)
    paused = {row["name"] for row in stopped if row["kind"] == "topic"}
    lines = {row["topic"]: row for row in await topics.lines(look.session)}
    dead: Counter[str] = Counter()
    for lane in await listing.lanes(look.session, "events"):
        dead[lane["topic"]] += lane["failed"]
    for row in rows:
        name, line = row["name"], lines.get(row["name"], topics.empty(row["name"]))
        yield _Relay(
            name=name,
            waiting=line["arrived"] + line["lined_up"],
            oldest=max(line["oldest"] or 0.0, row["oldest"] or 0.0),
            retried=row["retried"],
            error=row["error"],
            dead=dead[name],
            paused=name in paused,
            shut=await _shut(look, name),
        )


async def _shut(look: Look, name: str) -> BreakerRow | None:
    for row in await breakers.listed(look.session, uses=[f"topic {name}"]):
        if row["mode"] == "open" or (row["mode"] == "auto" and row["state"] != "closed"):
            return row
    return None


def _judge(relay: _Relay) -> Iterator[Finding]:
    subject = f"relay {relay.name}"
    waits = f"{relay.waiting:,} not published, the oldest for {span(relay.oldest)}"
    if relay.paused:
        remedy = f"run `inboxd resume topic {relay.name}` when it may continue"
        yield Finding(subject, Verdict.NOTICE, f"it is paused; {waits}", remedy)
    elif relay.shut is not None:
        shut = relay.shut
        how = "forced open" if shut["mode"] == "open" else shut["state"].replace("_", "-")
        why = shut["forced_for"] if shut["mode"] == "open" else shut["reason"]
        found = f"it is stopped: its breaker {shut['name']} is {how}" + (f" ({why})" if why else "")
        remedy = f"repair the broker; see `inboxd breakers show {shut['name']}`"
        levels = thresholds.STANDING_SECONDS
        yield levels.find(subject, relay.oldest, "seconds", f"{found}; {waits}", remedy)
    else:
        remedy = "start a worker with this relay (`inboxd workers`); if one runs, see its log"
        levels = thresholds.BACKLOG_SECONDS
        yield levels.find(subject, relay.oldest, "seconds", waits, remedy)
    if relay.retried or relay.dead:
        yield _refused(subject, relay)


def _refused(subject: str, relay: _Relay) -> Finding:
    found = f"refused: {plural(relay.retried, 'event')} retried"
    found += f", {plural(relay.dead, 'dead letter')}"
    found += f"; last reason: {relay.error}" if relay.error else ""
    remedy = (
        "`inboxd failures list` groups the reasons. Unroutable: make the queue, the stream or the "
        "binding that `to` names; retried events are then published by themselves; replay the dead "
        "letters"
    )
    verdict = max(
        thresholds.FAILED_ROWS.judge(relay.dead),
        Verdict.WARNING if relay.retried else Verdict.OK,
        key=lambda each: each.rank,
    )
    figure = relay.retried + relay.dead
    return Finding(f"{subject}: refused", verdict, found, remedy, figure, "rows")
