"""Can vacuum keep the tables small, and does anything stand in its way?

Owns the checks of group "tables". Known limit: numbers of rows are PostgreSQL's estimates, which
follow within seconds.
"""

from collections.abc import AsyncIterator

from inboxd.model.wording import plural, size, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict, worst
from inboxd.operations.doctor.look import Look
from inboxd.store.connections import Row

_HOT = ("events", "commands")


async def vacuum(look: Look) -> AsyncIterator[Finding]:
    """Dead rows beside what autovacuum waits for; the hot tables always, others if unwell."""
    for row in await look.rows("doctor_tables"):
        finding = _judge_vacuum(look.schema, row)
        if row["name"] in _HOT or finding.verdict is not Verdict.OK:
            yield finding


def _judge_vacuum(schema: str, row: Row) -> Finding:
    name, dead = f"{schema}.{row['name']}", row["dead"]
    verdict = Verdict.OK
    if dead >= thresholds.DEAD_ROWS_LEAST:
        verdict = thresholds.DEAD_TIMES_DUE.judge(dead / max(1.0, row["due"]))
    ago = "never" if row["vacuumed"] is None else f"{span(row['vacuumed'])} ago"
    found = f"{plural(dead, 'dead row')}, {row['live']:,} live, {_weight(row)}; vacuumed {ago}"
    remedy = f"run: VACUUM {name}; if they stay, see «oldest snapshot» below"
    if row["running"]:
        found += "; a vacuum runs"
        remedy = "wait for the vacuum that runs"
    if row["off"]:
        found += "; autovacuum is off"
        remedy = f"run: ALTER TABLE {name} RESET (autovacuum_enabled); VACUUM {name};"
        verdict = worst(verdict, Verdict.WARNING)
    return Finding(f"dead rows: {row['name']}", verdict, found, remedy, dead, "rows")


def _weight(row: Row) -> str:
    """How large a table is, as PostgreSQL counted when it looked at it last."""
    return size(row["bytes"]) if row["bytes"] else "size not counted yet"


async def oldest_snapshot(look: Look) -> AsyncIterator[Finding]:
    """The holders of old snapshots, which keep dead rows; the oldest first."""
    rows = await look.rows("doctor_snapshots", thresholds.SHOWN)
    told = [finding for row in rows if (finding := _judge_holder(row)).verdict is not Verdict.OK]
    for finding in told:
        yield finding
    if not told:
        oldest = max((row["age"] for row in rows), default=0)
        found = f"{plural(oldest, 'transaction')} back" if rows else "nothing keeps dead rows"
        yield Finding("oldest snapshot", Verdict.OK, found, figure=oldest, unit="transactions")


def _judge_holder(row: Row) -> Finding:
    since, age = row["since"], row["age"] or 0
    verdict = thresholds.SNAPSHOT_TRANSACTIONS.judge(age)
    if since is not None:
        verdict = worst(verdict, thresholds.SNAPSHOT_SECONDS.judge(since))
    who, remedy = _holder(row)
    held = "" if since is None else f" for {span(since)}"
    found = f"held{held} by {who}, {plural(age, 'transaction')} back"
    return Finding("oldest snapshot", verdict, found, remedy, since, "seconds")


def _holder(row: Row) -> tuple[str, str]:
    """The holder of a snapshot, and how to end it."""
    name = row["name"]
    application, state = row["application"] or "no name", row["state"] or "state not seen"
    of = f" (role {row['role']}, {application}, {state})"
    match row["holder"]:
        case "session":
            return (
                f"pid {name}{of}",
                f"end it, if it need not be: SELECT pg_terminate_backend({name});",
            )
        case "standby":
            who = f"the standby at pid {name}{of}, by hot_standby_feedback"
            return who, "end its long query, or switch hot_standby_feedback off there"
        case "prepared":
            quoted = name.replace("'", "''")
            who = f"prepared transaction {name!r} (role {row['role']})"
            return who, f"run: COMMIT PREPARED '{quoted}'; or ROLLBACK PREPARED '{quoted}';"
        case _:
            quoted = name.replace("'", "''")
            who = f"replication slot {name!r} ({row['state']})"
            return who, f"if nobody needs it: SELECT pg_drop_replication_slot('{quoted}');"


async def locks(look: Look) -> AsyncIterator[Finding]:
    """Sessions that wait for a lock on our tables, and those in front."""
    least = thresholds.LOCK_WAIT_SECONDS.notice
    rows = await look.rows("doctor_locks", least, thresholds.SHOWN)
    if not rows:
        yield Finding("locks", Verdict.OK, f"none waits longer than {span(least or 0)}", figure=0)
    for row in rows:
        blockers = ", ".join(map(str, row["blockers"])) or "none any more"
        yield thresholds.LOCK_WAIT_SECONDS.find(
            "locks",
            row["waited"],
            "seconds",
            f"pid {row['pid']} ({row['application'] or 'no name'}) waits for {row['mode']} on "
            f"{row['on_table']} for {span(row['waited'])}, behind pid {blockers}",
            "look at the session in front; if it need not be: SELECT pg_terminate_backend(pid);",
        )


async def sizes(look: Look) -> AsyncIterator[Finding]:
    """What history, bodies and the record of keys weigh."""
    for row in await look.rows("doctor_sizes"):
        found = f"about {plural(row['rows'], 'row')}"
        found += f", {_weight(row)}" if row["rows"] else ""
        if row["partitions"]:
            found += f" in {plural(row['partitions'], 'partition')}"
        levels = thresholds.DEDUP_ROWS if row["name"] == "dedup" else thresholds.ANY
        remedy = "a shorter window keeps fewer keys"
        yield levels.find(f"size: {row['name']}", row["rows"], "rows", found, remedy)
