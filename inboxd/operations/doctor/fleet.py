"""Checks workers, receivers, notifications and clocks.

Known limit: it recognizes listening workers by the names of their sessions, which a pooler hides.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from time import monotonic

from inboxd.model.wording import plural, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import listing, receivers
from inboxd.store import samples as store_samples
from inboxd.store.connections import Row
from inboxd.store.wakeups import Flag

_MOST_WORKERS = 1000
# End of the name of a listening session, as in `inboxd.store.wakeups`.
_LISTENER = " listener"


async def workers(look: Look) -> AsyncIterator[Finding]:
    living = await listing.workers(look.session, ended=False, limit=_MOST_WORKERS)
    if not living:
        remedy = "start `inboxd run`, or find out why systemd or Kubernetes did not start it"
        yield Finding("workers", Verdict.CRITICAL, "no living worker", remedy, 0)
        return
    lease = look.settings.worker.lease.total_seconds()
    silent = 0
    for row in living:
        verdict = thresholds.SILENT_LEASES.judge(row["silence"] / lease)
        if verdict is not Verdict.OK and silent < thresholds.SHOWN:
            silent += 1
            yield _silent(row, verdict)
    hosts = len({row["host"] for row in living})
    found = f"{len(living)} on {plural(hosts, 'host')}"
    yield Finding("workers", Verdict.OK, found, figure=len(living))
    if len(versions := sorted({row["version"] for row in living})) > 1:
        found = f"{' and '.join(versions)} run side by side"
        remedy = "finish the rolling deploy; both releases may work until then"
        yield Finding("releases", Verdict.NOTICE, found, remedy, len(versions))


def _silent(row: Row, verdict: Verdict) -> Finding:
    return Finding(
        "workers",
        verdict,
        f"{row['name']} (pid {row['pid']} on {row['host']}) has been silent for "
        f"{span(row['silence'])}",
        f"check whether pid {row['pid']} is stopped, its host overloaded, or its connection to the "
        "database cut; other workers reap its commands when its lease has ended",
        row["silence"],
        "seconds",
    )


async def samples(look: Look) -> AsyncIterator[Finding]:
    interval = look.settings.maintenance.sampling.total_seconds()
    newest = await store_samples.newest(look.session)
    if newest is None:
        living = await listing.workers(look.session, ended=False, limit=1)
        remedy = "wait until a worker has run for a minute; then see the leader's log"
        verdict = Verdict.NOTICE if living else Verdict.OK
        yield Finding("samples", verdict, "the backlog was not counted yet", remedy)
        return
    found = f"the backlog was counted {span(newest.age)} ago"
    remedy = (
        "metrics and alerts show the values of that time. Start a worker; if one runs, the log of "
        "the leader has the reason: an old snapshot, or a worker of an older release"
    )
    verdict = thresholds.SAMPLE_INTERVALS.judge(newest.age / interval)
    yield Finding("samples", verdict, found, remedy, newest.age, "seconds")


async def receiving(look: Look) -> AsyncIterator[Finding]:
    silence = look.settings.worker.lease
    found = await receivers.listed(look.session, silence, _MOST_WORKERS)
    gone = [row for row in found if row["state"] == "dead"]
    for row in gone[: thresholds.SHOWN]:
        yield Finding(
            "receivers",
            Verdict.WARNING,
            f"{row['name']} (pid {row['pid']} on {row['host']}) has been silent for "
            f"{span(row['silence'])}; it received {', '.join(row['sources']) or 'nothing'}",
            "check the process, and start it again unless it was removed on purpose: a sender that "
            "does not retry loses the webhooks that it sends there",
            row["silence"],
            "seconds",
        )
    spooling = [row for row in found if row["spooled"] or row["broken"]]
    for row in spooling[: thresholds.SHOWN]:
        yield _spooling(row)
    living = {name for row in found if row["state"] != "dead" for name in row["sources"]}
    unreceived = sorted(look.settings.inbound.webhooks.keys() - living)
    if unreceived:
        remedy = "start `inboxd receive`, or set inbound.http.enabled for `inboxd run`"
        missing = f"no receiver for {', '.join(unreceived)}"
        yield Finding("receivers", Verdict.WARNING, missing, remedy, len(unreceived))
    if not (gone or unreceived or spooling):
        count = plural(len(found), "process") if found else "none"
        yield Finding("receivers", Verdict.OK, count, figure=len(found))


def _spooling(row: Row) -> Finding:
    who = f"{row['name']} (pid {row['pid']} on {row['host']})"
    if row["broken"]:
        remedy = "repair the disk, then restart the receiver; until then it answers 503 in outages"
        why = row["trouble"] or "its spool is broken; the reason is withheld from this role"
        return Finding("receivers", Verdict.CRITICAL, f"{who}: {why}", remedy)
    found = f"{who} spools {', '.join(row['spooled'])}: webhooks of other hosts can overtake these"
    remedy = "wait some seconds after an outage; then see `inboxd spool list` on that host"
    return Finding("receivers", Verdict.NOTICE, found, remedy, len(row["spooled"]))


async def listening(look: Look) -> AsyncIterator[Finding]:
    row = await look.row("doctor_listening", _LISTENER)
    living = await listing.workers(look.session, ended=False, limit=_MOST_WORKERS)
    off = Flag.OFF in (row["events"], row["commands"])
    words = {None: "never set", 0: "silent", 1: "notify", 2: "off"}
    flags = f"events {words.get(row['events'])}, commands {words.get(row['commands'])}"
    found = plural(row["listeners"], "session") + f" listening; flags: {flags}"
    verdict, remedy = Verdict.OK, ""
    if not living and 0 in (row["events"], row["commands"]):
        verdict = Verdict.WARNING
        remedy = "a worker died while it claimed: start one, which sets the flag and finds all rows"
    elif off:
        found += ": workers find rows only by polling"
        verdict = Verdict.NOTICE
        remedy = 'do nothing if wakeups.mode = "off" is intended'
    elif row["listeners"] < len(living):
        verdict = Verdict.WARNING
        remedy = "workers reconnect by themselves: see their logs; behind a pooler, do nothing"
        found += f", {plural(len(living), 'living worker')}"
    yield Finding("wake-ups", verdict, found, remedy, row["listeners"])
    full = f"{row['usage']:.1%} of the queue is full"
    remedy = "end the oldest transaction of a listening session"
    yield thresholds.NOTIFICATION_SHARE.find("notifications", row["usage"], "share", full, remedy)


async def silenced(look: Look) -> AsyncIterator[Finding]:
    """Find roles and databases whose inserts do not notify workers."""
    for name in await listing.silenced(look.session):
        yield Finding(
            "wake-ups",
            Verdict.NOTICE,
            f"{name} inserts without a wake-up (inboxd.notify = off)",
            "do nothing if that is intended: its rows wait up to worker.poll_interval "
            f"({look.settings.worker.poll_interval})",
        )


async def clock(look: Look) -> AsyncIterator[Finding]:
    begun, here = monotonic(), datetime.now(UTC)
    (there,) = await look.row("clock")
    took = monotonic() - begun
    off = max(0.0, abs((there - here).total_seconds() - took / 2) - took / 2)
    found = f"this machine's clock is {span(off)} off the database's (± {span(took / 2)})"
    remedy = "set the clock by NTP: producers write times of their own clocks"
    yield thresholds.CLOCK_SECONDS.find("clock", off, "seconds", found, remedy)
