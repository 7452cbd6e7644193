"""Are there workers, are they notified of new rows, and do clocks agree?

Owns the checks of group "workers". Known limit: whether a worker listens is read from the names of
its sessions, so a pooler between hides it.
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
# As `inboxd.store.wakeups` names the session that listens.
_LISTENER = " listener"


async def workers(look: Look) -> AsyncIterator[Finding]:
    """The living workers, those that are silent, and whether they are of one release."""
    living = await listing.workers(look.session, ended=False, limit=_MOST_WORKERS)
    if not living:
        remedy = "`inboxd run`, or see why systemd or Kubernetes did not start it"
        yield Finding("workers", Verdict.CRITICAL, "no worker lives", remedy, 0)
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
        found = f"{' and '.join(versions)} side by side"
        remedy = "end the rolling deploy; both may work meanwhile"
        yield Finding("releases", Verdict.NOTICE, found, remedy, len(versions))


def _silent(row: Row, verdict: Verdict) -> Finding:
    return Finding(
        "workers",
        verdict,
        f"{row['name']} (pid {row['pid']} on {row['host']}) has been silent for "
        f"{span(row['silence'])}",
        f"look at it: is pid {row['pid']} stopped, its machine overloaded, its way to the "
        "database cut? Others take its commands back when its lease has ended",
        row["silence"],
        "seconds",
    )


async def samples(look: Look) -> AsyncIterator[Finding]:
    """Whether what metrics and `inboxd status` show of the backlog is counted again and again."""
    interval = look.settings.maintenance.sampling.total_seconds()
    newest = await store_samples.newest(look.session.connection, look.session.sql)
    if newest is None:
        living = await listing.workers(look.session, ended=False, limit=1)
        remedy = "look again when a worker has run for a minute; then see the leader's log"
        verdict = Verdict.NOTICE if living else Verdict.OK
        yield Finding("samples", verdict, "none of the backlog was taken yet", remedy)
        return
    found = f"the backlog was counted {span(newest.age)} ago"
    remedy = (
        "metrics and alerts show what was then. If a worker lives, the leader's log says why it "
        "counts no more: a snapshot that has been held for hours? A worker of an older release?"
    )
    verdict = thresholds.SAMPLE_INTERVALS.judge(newest.age / interval)
    yield Finding("samples", verdict, found, remedy, newest.age, "seconds")


async def receiving(look: Look) -> AsyncIterator[Finding]:
    """The processes that receive webhooks, and those that fell silent within an hour."""
    silence = look.settings.worker.lease
    found = await receivers.listed(look.session, silence, _MOST_WORKERS)
    gone = [row for row in found if row["state"] == "dead"]
    for row in gone[: thresholds.SHOWN]:
        yield Finding(
            "receivers",
            Verdict.WARNING,
            f"{row['name']} (pid {row['pid']} on {row['host']}) has been silent for "
            f"{span(row['silence'])}; it received {', '.join(row['sources']) or 'nothing'}",
            "look at it: what is sent to it now is lost where the sender does not send again; "
            "start one, if it is not meant to be gone",
            row["silence"],
            "seconds",
        )
    spooling = [row for row in found if row["spooled"] or row["broken"]]
    for row in spooling[: thresholds.SHOWN]:
        yield _spooling(row)
    living = {name for row in found if row["state"] != "dead" for name in row["sources"]}
    unreceived = sorted(look.settings.inbound.webhooks.keys() - living)
    if unreceived:
        remedy = (
            "start `inboxd receive`, or set inbound.http.enabled where `inboxd run` is to do it"
        )
        told = f"nobody receives {', '.join(unreceived)}"
        yield Finding("receivers", Verdict.WARNING, told, remedy, len(unreceived))
    if not (gone or unreceived or spooling):
        told = plural(len(found), "process") if found else "none"
        yield Finding("receivers", Verdict.OK, told, figure=len(found))


def _spooling(row: Row) -> Finding:
    who = f"{row['name']} (pid {row['pid']} on {row['host']})"
    if row["broken"]:
        remedy = "see to the disk, then restart that receiver; until then it answers 503 in outages"
        why = row["trouble"] or "its spool takes nothing any more; why is withheld from this role"
        return Finding("receivers", Verdict.CRITICAL, f"{who}: {why}", remedy)
    found = f"{who} spools {', '.join(row['spooled'])}: other hosts may overtake it meanwhile"
    remedy = "nothing, for a few seconds after an outage; else `inboxd spool list` on that host"
    return Finding("receivers", Verdict.NOTICE, found, remedy, len(row["spooled"]))


async def listening(look: Look) -> AsyncIterator[Finding]:
    """Whether producers notify, and whether workers listen."""
    row = await look.row("doctor_listening", _LISTENER)
    living = await listing.workers(look.session, ended=False, limit=_MOST_WORKERS)
    off = Flag.OFF in (row["events"], row["commands"])
    words = {None: "never set", 0: "silent", 1: "notify", 2: "off"}
    flags = f"events {words.get(row['events'])}, commands {words.get(row['commands'])}"
    found = plural(row["listeners"], "session") + f" listening; flags: {flags}"
    verdict, remedy = Verdict.OK, ""
    if not living and 0 in (row["events"], row["commands"]):
        verdict = Verdict.WARNING
        remedy = "a worker died while it claimed: start one, it sets the flag and looks everywhere"
    elif off:
        found += ": rows are found by polls only"
        verdict = Verdict.NOTICE
        remedy = 'nothing, if wakeups.mode = "off" is meant'
    elif row["listeners"] < len(living):
        verdict = Verdict.WARNING
        remedy = "workers reconnect by themselves: see their logs; behind a pooler, nothing"
        found += f", {plural(len(living), 'worker')} alive"
    yield Finding("wake-ups", verdict, found, remedy, row["listeners"])
    full = f"{row['usage']:.1%} of the queue is full"
    remedy = "end the oldest transaction of a session that listens"
    yield thresholds.NOTIFICATION_SHARE.find("notifications", row["usage"], "share", full, remedy)


async def silenced(look: Look) -> AsyncIterator[Finding]:
    """Roles and databases whose inserts wake nobody."""
    for name in await listing.silenced(look.session):
        yield Finding(
            "wake-ups",
            Verdict.NOTICE,
            f"{name} inserts without a wake-up (inboxd.notify = off)",
            f"nothing, if that is meant: its rows wait for worker.poll_interval "
            f"({look.settings.worker.poll_interval})",
        )


async def clock(look: Look) -> AsyncIterator[Finding]:
    """This machine's clock beside the database's; workers compare neither."""
    begun, here = monotonic(), datetime.now(UTC)
    (there,) = await look.row("clock")
    took = monotonic() - begun
    off = max(0.0, abs((there - here).total_seconds() - took / 2) - took / 2)
    found = f"this machine is {span(off)} away from the database, give or take {span(took / 2)}"
    remedy = "let NTP set it: times that producers give are theirs"
    yield thresholds.CLOCK_SECONDS.find("clock", off, "seconds", found, remedy)
