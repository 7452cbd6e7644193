"""Checks whether vacuum keeps tables small, and what prevents it; locks and sizes.

Known limit: numbers of rows are PostgreSQL's estimates, which lag by seconds.
"""

from collections.abc import AsyncIterator

from inboxd.model.wording import plural, size, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict, worst
from inboxd.operations.doctor.look import Look
from inboxd.store.connections import Row

_HOT = ("events", "commands")


async def vacuum(look: Look) -> AsyncIterator[Finding]:
    """Report hot tables always, others if not ok."""
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
    remedy = f"run: VACUUM {name}; if dead rows stay, see «oldest snapshot» below"
    if row["running"]:
        found += "; a vacuum runs"
        remedy = "wait for the running vacuum"
    if row["off"]:
        found += "; autovacuum is off"
        remedy = f"run: ALTER TABLE {name} RESET (autovacuum_enabled); VACUUM {name};"
        verdict = worst(verdict, Verdict.WARNING)
    return Finding(f"dead rows: {row['name']}", verdict, found, remedy, dead, "rows")


def _weight(row: Row) -> str:
    """The size is that of PostgreSQL's last vacuum or analyze."""
    return size(row["bytes"]) if row["bytes"] else "size not counted yet"


async def oldest_snapshot(look: Look) -> AsyncIterator[Finding]:
    """Old snapshots keep dead rows; the oldest holder comes first."""
    rows = await look.rows("doctor_snapshots", thresholds.SHOWN)
    findings = [each for row in rows if (each := _judge_holder(row)).verdict is not Verdict.OK]
    for finding in findings:
        yield finding
    if not findings:
        oldest = max((row["age"] for row in rows), default=0)
        found = f"{plural(oldest, 'transaction')} back" if rows else "nothing keeps dead rows"
        yield Finding("oldest snapshot", Verdict.OK, found, figure=oldest, unit="transactions")


def _judge_holder(row: Row) -> Finding:
    since, age = row["since"], row["age"] or 0
    verdict = thresholds.SNAPSHOT_TRANSACTIONS.judge(age)
    if since is not None:
        verdict = worst(verdict, thresholds.SNAPSHOT_SECONDS.judge(since))
    holder, remedy = _holder(row)
    held = "" if since is None else f" for {span(since)}"
    found = f"held{held} by {holder}, {plural(age, 'transaction')} back"
    return Finding("oldest snapshot", verdict, found, remedy, since, "seconds")


def _holder(row: Row) -> tuple[str, str]:
    name = row["name"]
    application, state = row["application"] or "unnamed", row["state"] or "state unknown"
    of = f" (role {row['role']}, {application}, {state})"
    match row["holder"]:
        case "session":
            return (
                f"pid {name}{of}",
                f"to end it: SELECT pg_terminate_backend({name});",
            )
        case "standby":
            holder = f"the standby at pid {name}{of}, by hot_standby_feedback"
            return holder, "end its long query, or switch hot_standby_feedback off there"
        case "prepared":
            quoted = name.replace("'", "''")
            holder = f"prepared transaction {name!r} (role {row['role']})"
            return holder, f"run: COMMIT PREPARED '{quoted}'; or ROLLBACK PREPARED '{quoted}';"
        case _:
            quoted = name.replace("'", "''")
            holder = f"replication slot {name!r} ({row['state']})"
            return holder, f"if it is not needed: SELECT pg_drop_replication_slot('{quoted}');"


async def locks(look: Look) -> AsyncIterator[Finding]:
    least = thresholds.LOCK_WAIT_SECONDS.notice
    rows = await look.rows("doctor_locks", least, thresholds.SHOWN)
    if not rows:
        text = f"no session waits longer than {span(least or 0)}"
        yield Finding("locks", Verdict.OK, text, figure=0)
    for row in rows:
        blockers = ", ".join(map(str, row["blockers"])) or "none any longer"
        yield thresholds.LOCK_WAIT_SECONDS.find(
            "locks",
            row["waited"],
            "seconds",
            f"pid {row['pid']} ({row['application'] or 'unnamed'}) has waited {span(row['waited'])}"
            f" for {row['mode']} on {row['on_table']}, blocked by pid {blockers}",
            "inspect the blocking session; to end it: SELECT pg_terminate_backend(pid);",
        )


async def advisory_locks(look: Look) -> AsyncIterator[Finding]:
    """Find sessions outside inboxd whose advisory locks keep workers from claiming."""
    for row in await look.rows("doctor_advisory", thresholds.SHOWN):
        application, state = row["application"] or "no name", row["state"] or "state not visible"
        since = "" if row["since"] is None else f" for {span(row['since'])}"
        remedy = f"end it: SELECT pg_terminate_backend({row['pid']});"
        if not row["may_hold"]:
            remedy += (
                f" and keep {row['role']} out: REVOKE CONNECT ON DATABASE … FROM PUBLIC; then "
                "grant CONNECT to the logins that need it"
            )
        yield Finding(
            "advisory locks",
            Verdict.CRITICAL,
            f"pid {row['pid']} (role {row['role']}, {application}, {state}{since}) holds "
            f"{plural(row['locks'], 'lock')} with names of the inbox, and is not a session of "
            "inboxd: workers do not claim the rows behind these locks",
            remedy,
            row["locks"],
        )


async def sizes(look: Look) -> AsyncIterator[Finding]:
    for row in await look.rows("doctor_sizes"):
        found = f"about {plural(row['rows'], 'row')}"
        found += f", {_weight(row)}" if row["rows"] else ""
        if row["partitions"]:
            found += f" in {plural(row['partitions'], 'partition')}"
        levels = thresholds.DEDUP_ROWS if row["name"] == "dedup" else thresholds.ANY
        remedy = "shorten the dedup window to keep fewer keys"
        yield levels.find(f"size: {row['name']}", row["rows"], "rows", found, remedy)
