"""Checks the server's version, settings, connections, locks and replication slots.

Known limit: it reads the settings of its own role; a worker of another role may have others.
"""

from collections.abc import AsyncIterator, Iterator
from math import ceil

from inboxd.model.wording import plural, size
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store.connections import Row
from inboxd.store.row_security import named

_OLDEST, _NEWEST = 15, 18


async def server(look: Look) -> AsyncIterator[Finding]:
    row = await look.row("doctor_server")
    yield judge_version(row["version"] // 10_000, row["version_text"], row["role"])
    if row["read_only"]:
        found = "read-only: a standby"
        yield Finding("server", Verdict.CRITICAL, found, "set database.dsn to the primary")
    findings = list(_settings(row))
    for finding in findings:
        yield finding
    if not findings:
        yield Finding("settings", Verdict.OK, "every setting that inboxd needs is on")
    yield _connections(row)
    yield _history_locks(await look.row("doctor_history_locks"))
    yield _unfrozen(row)
    if not row["reads_others"]:
        yield Finding(
            "privileges",
            Verdict.NOTICE,
            f"role {row['role']!r} cannot see the activity of other sessions",
            f"run: GRANT pg_read_all_stats TO {row['role']}; or run the doctor as another role",
        )


def judge_version(major: int, version: str, role: str) -> Finding:
    found = f"PostgreSQL {version}, as role {role!r}"
    if _OLDEST <= major <= _NEWEST:
        return Finding("server", Verdict.OK, found)
    if major > _NEWEST:
        return Finding("server", Verdict.WARNING, found, f"tested with {_OLDEST} to {_NEWEST}")
    remedy = f"upgrade PostgreSQL: inboxd needs {_OLDEST} or newer"
    return Finding("server", Verdict.CRITICAL, found, remedy)


def _settings(row: Row) -> Iterator[Finding]:
    for name, verdict, why in (
        ("fsync", Verdict.CRITICAL, "a crash of the machine loses and corrupts rows"),
        ("full_page_writes", Verdict.CRITICAL, "a crash of the machine may corrupt rows"),
        ("autovacuum", Verdict.CRITICAL, "tables grow and claims become slow"),
        ("track_counts", Verdict.CRITICAL, "autovacuum does not know which tables need it"),
        ("track_activities", Verdict.NOTICE, "the activity of sessions is not visible"),
    ):
        if not row[name]:
            remedy = f"run: ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();"
            yield Finding("settings", verdict, f"{name} is off: {why}", remedy)
    if row["synchronous_commit"] == "off":
        yield Finding(
            "settings",
            Verdict.WARNING,
            "synchronous_commit is off: a crash of the server loses rows of the last moments",
            "run: ALTER SYSTEM SET synchronous_commit = on; or for the producers' roles alone",
        )
    if row["waits_for_standby"] and row["standbys"] == 0:
        yield Finding(
            "settings",
            Verdict.CRITICAL,
            "synchronous_standby_names is set, but no such standby runs: commits wait for ever",
            "start the standby, or empty synchronous_standby_names and reload",
        )
    if row["unawaited"]:
        yield Finding(
            "settings",
            Verdict.NOTICE,
            f"commits do not wait for {plural(len(row['unawaited']), 'standby')}: "
            f"{named(row['unawaited'])}; a failover to such a standby loses the rows of the last "
            "moments, also of webhooks that were accepted",
            "add standbys for failover to synchronous_standby_names; without such standbys, do "
            "nothing",
        )


def _connections(row: Row) -> Finding:
    used, most = row["connections"], row["most_connections"]
    remedy = "raise max_connections, lower pools, or put a pooler before the server"
    share, found = used / max(1, most), f"{used} of {most}"
    return thresholds.CONNECTION_SHARE.find("connections", share, "share", found, remedy)


def _history_locks(row: Row) -> Finding:
    """A read of all history holds this share of the server's locks."""
    share = row["locks"] / max(1, row["most"])
    found = (
        f"a read of all {row['days']:,} days of history takes {row['locks']:,} of the "
        f"{row['most']:,} locks that all sessions share"
    )
    enough = ceil(row["each"] * share / thresholds.HISTORY_LOCKS_ENOUGH / 64) * 64
    remedy = (
        f"run: ALTER SYSTEM SET max_locks_per_transaction = {enough}; and restart the server, or "
        "keep history for less time"
    )
    return thresholds.HISTORY_LOCKS.find("history locks", share, "share", found, remedy)


def _unfrozen(row: Row) -> Finding:
    found = f"the oldest unfrozen transaction is {row['age']:,} back"
    remedy = "VACUUM FREEZE, at a quiet time; findings above show the cause that stops autovacuum"
    return thresholds.UNFROZEN_TRANSACTIONS.find(
        "wraparound", row["age"], "transactions", found, remedy
    )


async def producers(look: Look) -> AsyncIterator[Finding]:
    """Find logins of producers whose transactions may stay idle without a limit."""
    rows = await look.rows("doctor_producers")
    if any(row["by_server"] and row["reads_files"] for row in rows):
        (limited,) = await look.row("doctor_idle_limit")
        rows = [row for row in rows if not (row["by_server"] and limited)]
    if rows:
        unsure = any(row["by_server"] and not row["reads_files"] for row in rows)
        yield Finding(
            "producers",
            Verdict.NOTICE,
            f"{named([row['role'] for row in rows])}: no idle_in_transaction_session_timeout, so "
            "an open transaction holds up the topics into which it wrote, without a limit",
            "run: "
            + "\n".join(row["remedy"] for row in rows)
            + ("; do nothing if the server's settings have a limit" if unsure else ""),
            len(rows),
        )


async def slots(look: Look) -> AsyncIterator[Finding]:
    """Inactive replication slots fill the disk."""
    rows = await look.rows("doctor_slots")
    if not rows:
        yield Finding("slots", Verdict.OK, "no unread slot", figure=0)
    for row in rows:
        kept, quoted = row["bytes"] or 0, row["name"].replace("'", "''")
        found = f"{row['name']!r} has no reader and keeps {size(kept)} of WAL"
        remedy = f"if it is not needed: SELECT pg_drop_replication_slot('{quoted}');"
        yield thresholds.SLOT_BYTES.find("slots", kept, "bytes", found, remedy)
