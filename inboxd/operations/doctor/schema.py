"""Is the schema what this release made, and has history room for what comes?

Owns the checks of group "schema". Known limit: a schema that a newer release migrated is not
compared: this one does not know what it should look like.
"""

from collections.abc import AsyncIterator

from inboxd.errors import SchemaError
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict, span
from inboxd.operations.doctor.look import Look
from inboxd.store import catalogue, migrations
from inboxd.store import partitions as store
from inboxd.store.catalogue import Difference

# What is gone costs safety or speed at once; what was added costs a little at each write.
_VERDICTS = {
    "missing": Verdict.CRITICAL,
    "changed": Verdict.WARNING,
    "extra": Verdict.NOTICE,
}
_REMEDIES = {
    "missing": "make it again as the migrations do: {expected}",
    "changed": "it was changed by hand; this release has: {expected}",
    "extra": "it is none of inboxd's: move it to a schema of your own, or drop it",
}


async def version(look: Look) -> AsyncIterator[Finding]:
    """Whether this release works with the schema that is there."""
    connection, sql = look.session.connection, look.session.sql
    try:
        await migrations.check(connection, sql)
    except SchemaError as error:
        found, _, remedy = str(error).rpartition("; ")
        yield Finding("version", Verdict.CRITICAL, found or remedy, remedy if found else "")
        return
    ran = max(old.version for old in await migrations.applied(connection, sql))
    newer = ran > migrations.code_version()
    yield Finding(
        "version",
        Verdict.NOTICE if newer else Verdict.OK,
        f"{look.schema!r} is at version {ran}" + (", newer than this release" if newer else ""),
        "upgrade this machine's inboxd too" if newer else "",
        ran,
    )


async def drift(look: Look) -> AsyncIterator[Finding]:
    """Whether somebody changed what the migrations made."""
    connection, sql = look.session.connection, look.session.sql
    ran = await migrations.applied(connection, sql)
    if max((old.version for old in ran), default=0) != migrations.code_version():
        yield Finding("drift", Verdict.NOTICE, "not compared: the schema is another release's")
        return
    compared, found = await catalogue.differences(connection, sql)
    # What retention has detached is no partition any more, until it is dropped.
    leaving = {
        row["part"] for row in await look.rows("doctor_departures") if row["state"] == "detached"
    }
    found = [each for each in found if each.name not in leaving]
    if not found:
        yield Finding("drift", Verdict.OK, f"all {compared} things are as migrations make them")
        return
    found.sort(key=lambda each: -_VERDICTS[each.how].rank)
    for each in found[: thresholds.SHOWN * 4]:
        yield _differs(each)
    if (more := len(found) - thresholds.SHOWN * 4) > 0:
        yield Finding("drift", Verdict.NOTICE, f"{more} more differences", figure=more)


def _differs(each: Difference) -> Finding:
    verdict = Verdict.NOTICE if each.kind == "settings" else _VERDICTS[each.how]
    expected = each.expected or f"see the migrations ({each.name})"
    remedy = _REMEDIES[each.how].format(expected=expected)
    if each.how == "changed":
        found = f"{each.kind} {each.name} has {each.found}"
    else:
        found = f"{each.kind} {each.name} is {each.how}"
    return Finding("drift", verdict, found, remedy)


async def indexes(look: Look) -> AsyncIterator[Finding]:
    """Whether PostgreSQL uses all indexes: one whose making was interrupted it does not."""
    found = await look.rows("doctor_indexes")
    if not found:
        yield Finding("indexes", Verdict.OK, "all are valid", figure=0)
    for row in found:
        what = f"{row['name']} on {row['on_table']} is invalid"
        if row["is_built"]:
            yield Finding("indexes", Verdict.NOTICE, f"{what}: it is being built", "wait for it")
            continue
        leftover = row["name"].rstrip("0123456789").endswith(("_ccnew", "_ccold"))
        remedy = f"run: DROP INDEX CONCURRENTLY {row['name']};"
        if not leftover:
            remedy = f"run: REINDEX INDEX CONCURRENTLY {row['name']};"
        grave = row["is_unique"] and not leftover
        yield Finding("indexes", Verdict.CRITICAL if grave else Verdict.WARNING, what, remedy)


async def partitions(look: Look) -> AsyncIterator[Finding]:
    """How far ahead history has room, and detaches that were interrupted."""
    connection, sql = look.session.connection, look.session.sql
    yield judge_partitions(await store.days_ahead(connection, sql))
    for row in await look.rows("doctor_departures"):
        if row["state"] == "pending":
            parent, part = f"{look.schema}.{row['parent']}", f"{look.schema}.{row['part']}"
            yield Finding(
                "partitions",
                Verdict.WARNING,
                f"the detach of {part} was interrupted",
                "the leading worker ends it; "
                f"or run: ALTER TABLE {parent} DETACH PARTITION {part} FINALIZE;",
            )


async def retention(look: Look) -> AsyncIterator[Finding]:
    """Whether history goes when the settings say so."""
    history = look.settings.history
    keep = {"events_history": history.events, "commands_history": history.commands}
    late = []
    if any(keep.values()):  # else nothing is late, and bounds need not be read
        late = [
            each.age - kept.total_seconds()
            for each in await store.listed(look.session.connection, look.session.sql)
            if (kept := keep.get(each.parent)) is not None and each.age > kept.total_seconds()
        ]
    longest = max(late, default=0.0)
    verdict = thresholds.RETENTION_SECONDS.judge(longest)
    times = {
        parent.partition("_")[0]: "ever" if kept is None else span(kept.total_seconds())
        for parent, kept in keep.items()
    }
    text = "kept: " + ", ".join(f"{place} for {time}" for place, time in times.items())
    if late:
        text += f"; {len(late)} partitions should be gone, the oldest for {span(longest)}"
    remedy = ""
    if verdict is not Verdict.OK:
        remedy = "see the log of the worker that leads: an export that fails, or a lock"
    yield Finding("retention", verdict, text, remedy, longest, "seconds")


def judge_partitions(days: int) -> Finding:
    """Whether that many days ahead are enough; -1: not even today has a partition."""
    found = f"partitions for {days} days ahead" if days >= 0 else "no partition for today"
    if days >= thresholds.DAYS_AHEAD_ENOUGH:
        return Finding("partitions", Verdict.OK, found, figure=days, unit="days")
    remedy = "start a worker: it makes them; if one runs, its log says what keeps it from that"
    verdict = Verdict.WARNING if days >= 0 else Verdict.CRITICAL
    return Finding("partitions", verdict, found, remedy, days, "days")
