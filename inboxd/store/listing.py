"""What operators look at: single rows, lanes, workers, throughput, the server's fitness.

Owns the reading statements behind the command line, but for lists of rows, which are in `finding`.
Promises that payloads leave the database only when asked for.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, get_args
from uuid import UUID

import orjson

from inboxd.store import migrations
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Whose rights a login may have: a role of that name comes with the schema.
Whose = Literal["worker", "operator", "viewer", "producer", "receiver"]
WHOSE: tuple[Whose, ...] = get_args(Whose)

COUNTED = 10_000  # a lane is counted so far: enough to see that it is long
_BOUNDS = (COUNTED, COUNTED)  # of what waits, and of dead letters
# What a lane is named by beside its type, and what is counted of it.
_OF_LANES = {
    "events": ("topic", "pending", "due", "failed"),
    "commands": ("queue", "pending", "due", "running", "failed", "in_line", "unmet"),
}
# What the states of `lanes_events.sql` and `lanes_commands.sql` count as.
_COUNTED_AS = {
    "pending": ("pending",),
    "kept": ("pending",),
    "suspect": ("pending",),
    "in_line": ("pending", "in_line"),
    "again": ("pending", "in_line"),
    "running": ("running",),
    "unmet": ("unmet",),
    "failed": ("failed",),
}


async def one(
    session: Session, table: HotTable, id: int | UUID, *, payload: bool = False
) -> dict[str, Any] | None:
    """All columns of one row, hot or settled, as JSON values; None when there is none."""
    number, uuid = (None, id) if isinstance(id, UUID) else (id, None)
    found = await session.fetchval(f"show_{table}", number, uuid, payload)
    return None if found is None else orjson.loads(found)


async def lanes(session: Session, table: HotTable) -> list[dict[str, Any]]:
    """Topics (queues) and types with their counts, no lane counted further than COUNTED.

    pending: of them so many due, the oldest for so many seconds; of commands so many in_line (of an
    ordering key), besides those that are running, or unmet (they wait for others); of events
    whether those that are pending are kept (no living worker handles them); failed.
    """
    return by_type(table, await session.fetch(f"lanes_{table}", *_BOUNDS))


def by_type(table: HotTable, rows: Iterable[Row | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same of rows of `lanes_events.sql` or `lanes_commands.sql` that were counted before."""
    place, *counts = _OF_LANES[table]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        name, type_ = row[place], row["type"]
        nothing = {place: name, "type": type_, **dict.fromkeys(counts, 0), "oldest": None}
        lane = found.setdefault((name, type_), nothing)
        for count in _COUNTED_AS[row["state"]]:
            lane[count] += row["rows"]
        lane["due"] += row["due"]
        if row["oldest"] is not None:
            lane["oldest"] = max(row["oldest"], lane["oldest"] or 0.0)
        if table == "events":
            lane["kept"] = lane.get("kept", False) or row["state"] == "kept"
    return list(found.values())


async def rules(session: Session, kind: str, type_: str) -> list[dict[str, Any]]:
    """The retry rules of a type's handlers, as the workers declared them; none: nobody did."""
    return (await rules_and_secrets(session, kind, type_))[0]


async def rules_and_secrets(
    session: Session, kind: str, type_: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The same, and which keys of its payload are secrets."""
    found = await session.fetchrow("declared_rules", kind, type_)
    if found is None:
        return [], []
    retry = found["retry"]
    return [] if retry is None else orjson.loads(retry), found["secret_keys"]


async def secret_keys(
    session: Session, kind: str, types: Collection[str] | None = None
) -> list[str]:
    """Which keys of payloads are secrets, of any of these types; None: of all."""
    wanted = None if types is None else sorted(types)
    return [row["name"] for row in await session.fetch("secret_keys", kind, wanted)]


async def progress(session: Session, limit: int) -> list[dict[str, Any]]:
    """Running commands that say how far they have come, the longest running ones first."""
    rows = await session.fetch("status_progress", limit)
    decoded = [dict(row) for row in rows]
    for row in decoded:
        row["done"], row["total"] = orjson.loads(row["done"]), orjson.loads(row["total"] or "null")
    return decoded


async def workers(session: Session, *, ended: bool, limit: int) -> list[Row]:
    """The workers that are there; with `ended`, those of the last week too."""
    return await session.fetch("list_workers", ended, limit)


async def server(session: Session) -> Row:
    """What the server is: version, version_text, role, read_only."""
    return await session.one("check_server")


async def missing_privileges(
    session: Session, role: str | None = None, whose: Whose = "worker"
) -> list[Row]:
    """What a role lacks, this one if none is named: privilege, object, remedy (SQL)."""
    called = [each.name for each in migrations.functions() if whose in each.roles]
    if whose == "worker":
        return await session.fetch("check_privileges", role, called)
    statement = "check_readers" if whose in ("operator", "viewer") else "check_senders"
    return await session.fetch(statement, role, whose, called)


async def missing_roles(session: Session) -> list[str]:
    """The roles that come with the schema and are not there."""
    return [row["name"] for row in await session.fetch("missing_roles")]


async def role_to_grant(session: Session, whose: Whose) -> str | None:
    """The role that has what they need, if a grant of it would reach this role."""
    name: str | None = await session.fetchval("role_to_grant", whose)
    return name


async def not_inherited(session: Session, whose: Whose) -> str | None:
    """What gives this role the rights of a membership that it has already, and inherits not."""
    remedy: str | None = await session.fetchval("not_inherited", whose)
    return remedy


async def silenced(session: Session) -> list[str]:
    """Roles and databases whose inserts never wake a worker."""
    return [row[0] for row in await session.fetch("check_silenced")]
