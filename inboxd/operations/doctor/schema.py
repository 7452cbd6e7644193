"""Checks the schema's version, its differences from the migrations, and partitions of history.

Known limit: this release does not know the definition of a newer schema.
"""

from collections.abc import AsyncIterator, Sequence

from inboxd.errors import PluginError, SchemaError
from inboxd.model.wording import plural, span
from inboxd.operations.doctor import remedies, thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import catalogue, migrations, plugin_folders
from inboxd.store import partitions as store
from inboxd.store import plugin_migrations as of_plugins
from inboxd.store.catalogue import Difference
from inboxd.store.connections import Row
from inboxd.store.partitions import Apart

# A missing part costs safety or speed at once; an added part costs a little at each write.
_VERDICTS = {
    "missing": Verdict.CRITICAL,
    "changed": Verdict.WARNING,
    "extra": Verdict.NOTICE,
    "left": Verdict.NOTICE,
}


async def version(look: Look) -> AsyncIterator[Finding]:
    session = look.session
    try:
        await migrations.check(session)
    except SchemaError as error:
        found, _, remedy = str(error).rpartition("; ")
        yield Finding("version", Verdict.CRITICAL, found or remedy, remedy if found else "")
        return
    ran = (await migrations.applied(session)).version
    newer = ran > migrations.code_version()
    yield Finding(
        "version",
        Verdict.NOTICE if newer else Verdict.OK,
        f"{look.schema!r} is at version {ran}" + (", newer than this release" if newer else ""),
        "upgrade this machine's inboxd too" if newer else "",
        ran,
    )


async def plugin_migrations(look: Look) -> AsyncIterator[Finding]:
    """A worker does not start without the migrations of installed plugins."""
    subject = "plugin migrations"
    try:
        folders = plugin_folders.shipped_by(look.settings.worker.plugins)
        found = await of_plugins.states(look.session, folders)
        of_plugins.fits(found)
    except PluginError as error:
        remedy = "correct the plugin's migrations, or uninstall it"
        yield Finding(subject, Verdict.CRITICAL, str(error), remedy)
        return
    except SchemaError as error:
        text, _, remedy = str(error).rpartition("; ")
        yield Finding(subject, Verdict.CRITICAL, text, remedy)
        return
    text = of_plugins.summary(found) or "no installed plugin has migrations"
    ahead = [each.plugin for each in found if each.folder and each.version > each.newest]
    if ahead:
        text += f"; newer than the installed plugin: {', '.join(ahead)}"
    yield Finding(
        subject,
        Verdict.NOTICE if ahead else Verdict.OK,
        text,
        "upgrade this machine's plugin too" if ahead else "",
        len(found),
    )


async def drift(look: Look) -> AsyncIterator[Finding]:
    session = look.session
    ran = await migrations.applied(session)
    if ran.version != migrations.code_version():
        yield Finding("drift", Verdict.NOTICE, "not compared: the schema is another release's")
        return
    compared, found = await catalogue.differences(session)
    # Leave out detached tables: retention drops tables that it detached, and `partitions` reports
    # tables that a person detached.
    detached = {
        row["part"] for row in await look.rows("doctor_departures") if row["state"] == "detached"
    } | {each.part for each in await store.apart(session)}
    # A constraint's index would repeat the finding about the constraint.
    constraints = {each.name.partition(" ")[2] for each in found if each.kind == "constraint"}
    found = [
        each
        for each in found
        if each.name not in detached
        and not (each.kind == "index" and each.name.rpartition(".")[2] in constraints)
    ]
    if not found:
        yield Finding(
            "drift", Verdict.OK, f"all {compared} objects are as the migrations define them"
        )
        return
    found.sort(key=lambda each: -_VERDICTS[each.how].rank)
    for each in found[: thresholds.SHOWN * 4]:
        yield _differs(each, look.schema)
    if (more := len(found) - thresholds.SHOWN * 4) > 0:
        yield Finding("drift", Verdict.NOTICE, f"{more} more differences", figure=more)


def _differs(each: Difference, schema: str) -> Finding:
    verdict = Verdict.NOTICE if each.kind == "settings" else _VERDICTS[each.how]
    found = f"{each.kind} {each.name} is {each.how}"
    if each.how == "left":
        found += " over from an older release"
    if remedies.is_off(each):
        verdict, found = Verdict.CRITICAL, f"trigger {each.name} is switched off"
    elif each.how == "changed":
        found = f"{each.kind} {each.name} has {each.found}"
    return Finding("drift", verdict, found, remedies.remedy(each, schema))


async def indexes(look: Look) -> AsyncIterator[Finding]:
    """PostgreSQL does not use an invalid index: its creation was interrupted."""
    found = await look.rows("doctor_indexes")
    if not found:
        yield Finding("indexes", Verdict.OK, "all are valid", figure=0)
    for row in found:
        text = f"{row['name']} on {row['on_table']} is invalid"
        if row["is_built"]:
            yield Finding("indexes", Verdict.NOTICE, f"{text}: it is being built", "wait for it")
            continue
        leftover = row["name"].rstrip("0123456789").endswith(("_ccnew", "_ccold"))
        remedy = f"run: DROP INDEX CONCURRENTLY {row['name']};"
        if not leftover:
            remedy = f"run: REINDEX INDEX CONCURRENTLY {row['name']};"
        grave = row["is_unique"] and not leftover
        yield Finding("indexes", Verdict.CRITICAL if grave else Verdict.WARNING, text, remedy)


async def partitions(look: Look) -> AsyncIterator[Finding]:
    session = look.session
    apart = await store.apart(session)
    yield judge_partitions(await store.days_ahead(session), apart)
    if kept := [each for each in apart if each.ahead < 0]:
        yield Finding(
            "partitions",
            Verdict.NOTICE,
            f"{plural(len(kept), 'partition')} of past days detached, and kept: {_names(kept)}",
            "do nothing if you want to keep them, here or in another schema; otherwise attach them "
            f"again: {kept[0].attach}",
            len(kept),
        )
    for row in await look.rows("doctor_departures"):
        if row["state"] == "pending":
            yield _departs(f"{look.schema}.{row['parent']}", f"{look.schema}.{row['part']}", row)


def _departs(parent: str, part: str, row: Row) -> Finding:
    """A pending detach still runs, or it was interrupted."""
    if row["at_it"] is not None:
        behind = ", ".join(row["behind"]) or "no session any longer"
        return Finding(
            "partitions",
            Verdict.NOTICE,
            f"the detach of {part} (pid {row['at_it']}) is waiting for {behind}",
            "wait; to end the session that it waits for: SELECT pg_terminate_backend(pid);",
        )
    return Finding(
        "partitions",
        Verdict.WARNING,
        f"the detach of {part} was interrupted",
        f"the leader completes it; or run: ALTER TABLE {parent} DETACH PARTITION {part} FINALIZE;",
    )


async def retention(look: Look) -> AsyncIterator[Finding]:
    history = look.settings.history
    keep = {
        "events_history": history.events,
        "commands_history": history.commands,
        "receipts": history.receipts,
    }
    late = []
    if any(keep.values()):  # otherwise nothing can be late
        late = [
            each.age - kept.total_seconds()
            for each in await store.listed(look.session)
            if (kept := keep.get(each.parent)) is not None and each.age > kept.total_seconds()
        ]
    longest = max(late, default=0.0)
    times = {
        parent.partition("_")[0]: "ever" if kept is None else span(kept.total_seconds())
        for parent, kept in keep.items()
    }
    text = "kept: " + ", ".join(f"{table} for {time}" for table, time in times.items())
    if late:
        text += f"; {plural(len(late), 'partition')} overdue, the oldest for {span(longest)}"
    remedy = "see the leader's log: an export fails, or it waits for a lock"
    yield thresholds.RETENTION_SECONDS.find("retention", longest, "seconds", text, remedy)


def judge_partitions(days: int, apart: Sequence[Apart]) -> Finding:
    """days: coming days with a partition; -1: not even today has one."""
    found = f"partitions for {plural(days, 'day')} ahead" if days >= 0 else "no partition for today"
    if in_the_way := [each for each in apart if each.ahead >= 0]:
        verdict = Verdict.WARNING if days >= 0 else Verdict.CRITICAL
        remedy = (
            f"attach it again: {in_the_way[0].attach} "
            f"or rename it, and a worker creates a new one: {in_the_way[0].rename}"
        )
        found += f"; detached tables have the names of needed partitions: {_names(in_the_way)}"
        return Finding("partitions", verdict, found, remedy, days, "days")
    remedy = "start a worker, which creates them; if one runs, its log has the reason"
    verdict = Verdict.WARNING if days >= 0 else Verdict.CRITICAL
    if days >= thresholds.DAYS_AHEAD_ENOUGH:
        verdict = Verdict.OK
    return Finding("partitions", verdict, found, remedy, days, "days")


def _names(apart: Sequence[Apart]) -> str:
    more = ", …" if len(apart) > thresholds.SHOWN else ""
    return ", ".join(each.part for each in apart[: thresholds.SHOWN]) + more
