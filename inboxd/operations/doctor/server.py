"""Is the server set up to be safe and fast, and has it room?

Owns the checks of group "server". Known limit: settings are those that a new session of this role
gets; a worker of another role may have others.
"""

from collections.abc import AsyncIterator, Iterator
from math import ceil

from inboxd.model.wording import plural, size
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store.connections import Row

_OLDEST, _NEWEST = 15, 18


async def server(look: Look) -> AsyncIterator[Finding]:
    """The server's version, role and settings."""
    row = await look.row("doctor_server")
    yield judge_version(row["version"] // 10_000, row["version_text"], row["role"])
    if row["read_only"]:
        found = "read-only: a standby"
        yield Finding("server", Verdict.CRITICAL, found, "name the primary in database.dsn")
    told = list(_settings(row))
    for finding in told:
        yield finding
    if not told:
        yield Finding("settings", Verdict.OK, "nothing that inboxd rests on is switched off")
    yield _connections(row)
    yield _history_locks(await look.row("doctor_history_locks"))
    yield _unfrozen(row)
    if not row["reads_others"]:
        yield Finding(
            "privileges",
            Verdict.NOTICE,
            f"role {row['role']!r} does not see what other sessions do, nor since when",
            f"run: GRANT pg_read_all_stats TO {row['role']}; or run the doctor as another role",
        )


def judge_version(major: int, version: str, role: str) -> Finding:
    """Whether inboxd works with this version of PostgreSQL."""
    found = f"PostgreSQL {version}, as role {role!r}"
    if _OLDEST <= major <= _NEWEST:
        return Finding("server", Verdict.OK, found)
    if major > _NEWEST:
        return Finding("server", Verdict.WARNING, found, f"tested with {_OLDEST} to {_NEWEST}")
    remedy = f"upgrade PostgreSQL: inboxd needs {_OLDEST} or newer"
    return Finding("server", Verdict.CRITICAL, found, remedy)


def _settings(row: Row) -> Iterator[Finding]:
    for name, verdict, why in (
        ("fsync", Verdict.CRITICAL, "a crash of the machine loses and spoils rows"),
        ("full_page_writes", Verdict.CRITICAL, "a crash of the machine may spoil rows"),
        ("autovacuum", Verdict.CRITICAL, "tables grow and claims become slow"),
        ("track_counts", Verdict.CRITICAL, "autovacuum does not know where to go"),
        ("track_activities", Verdict.NOTICE, "nobody sees what sessions do"),
    ):
        if not row[name]:
            remedy = f"run: ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();"
            yield Finding("settings", verdict, f"{name} is off: {why}", remedy)
    if row["synchronous_commit"] == "off":
        yield Finding(
            "settings",
            Verdict.WARNING,
            "synchronous_commit is off: a crash of the server loses what was just accepted",
            "run: ALTER SYSTEM SET synchronous_commit = on; or for the producers' roles alone",
        )
    if row["waits_for_standby"] and row["standbys"] == 0:
        yield Finding(
            "settings",
            Verdict.CRITICAL,
            "synchronous_standby_names is set, and no such standby is there: commits wait for ever",
            "start the standby, or empty synchronous_standby_names and reload",
        )
    if row["followers"] and not row["waits_for_standby"]:
        yield Finding(
            "settings",
            Verdict.NOTICE,
            f"commits wait for none of {plural(row['followers'], 'standby')}: a failover "
            "to one loses what was accepted in the last moments, webhooks that were answered too",
            "name those that are promoted in synchronous_standby_names; or nothing, if none is",
        )


def _connections(row: Row) -> Finding:
    used, most = row["connections"], row["most_connections"]
    remedy = "raise max_connections, lower pools, or put a pooler before it"
    share, found = used / max(1, most), f"{used} of {most}"
    return thresholds.CONNECTION_SHARE.find("connections", share, "share", found, remedy)


def _history_locks(row: Row) -> Finding:
    """How much of the server's locks a look at all days of history takes, until it has ended."""
    share = row["locks"] / max(1, row["most"])
    found = (
        f"a look at all {row['days']:,} days of history takes {row['locks']:,} locks of the "
        f"{row['most']:,} that all sessions share"
    )
    enough = ceil(row["each"] * share / thresholds.HISTORY_LOCKS_ENOUGH / 64) * 64
    remedy = (
        f"run: ALTER SYSTEM SET max_locks_per_transaction = {enough}; and restart the server, or "
        "keep history for less time"
    )
    return thresholds.HISTORY_LOCKS.find("history locks", share, "share", found, remedy)


def _unfrozen(row: Row) -> Finding:
    found = f"the oldest unfrozen transaction is {row['age']:,} back"
    remedy = "VACUUM FREEZE, at a quiet time; see what keeps autovacuum from it above"
    return thresholds.UNFROZEN_TRANSACTIONS.find(
        "wraparound", row["age"], "transactions", found, remedy
    )


async def slots(look: Look) -> AsyncIterator[Finding]:
    """Replication slots that fill the disk."""
    rows = await look.rows("doctor_slots")
    if not rows:
        yield Finding("slots", Verdict.OK, "none that nobody reads", figure=0)
    for row in rows:
        kept, quoted = row["bytes"] or 0, row["name"].replace("'", "''")
        found = f"{row['name']!r} is read by nobody and keeps {size(kept)} of WAL"
        remedy = f"if nobody needs it: SELECT pg_drop_replication_slot('{quoted}');"
        yield thresholds.SLOT_BYTES.find("slots", kept, "bytes", found, remedy)
