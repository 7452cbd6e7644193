"""Operators' reads besides lists: single rows, lanes, workers, server; payloads on request only."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, get_args
from uuid import UUID

import orjson

from inboxd.store import migrations
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Roles that come with the schema, by what their members do.
Whose = Literal["worker", "operator", "viewer", "producer", "receiver"]
WHOSE: tuple[Whose, ...] = get_args(Whose)

COUNTED = 10_000  # rows per lane that are counted, at most
_BOUNDS = (COUNTED, COUNTED)  # of unsettled rows, and of dead letters
# The columns of a lane's summary: topic or queue, then its counts.
_OF_LANES = {
    "events": ("topic", "pending", "due", "failed"),
    "commands": ("queue", "pending", "due", "running", "failed", "in_line", "unmet"),
}
# The counts to which a state of `lanes_events.sql` or `lanes_commands.sql` adds.
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
    """All columns of one row, hot or settled, as JSON values; None if there is no such row."""
    number, uuid = (None, id) if isinstance(id, UUID) else (id, None)
    found = await session.fetchval(f"show_{table}", number, uuid, payload)
    return None if found is None else orjson.loads(found)


async def lanes(session: Session, table: HotTable) -> list[dict[str, Any]]:
    """Topics or queues with types and counts; at most COUNTED rows of a lane are counted.

    due, in_line (in a line), unmet (waits for others): parts of `pending`. oldest: seconds that the
    oldest due row has waited. kept: no living worker handles the pending events.
    """
    return by_type(table, await session.fetch(f"lanes_{table}", *_BOUNDS))


def by_type(table: HotTable, rows: Iterable[Row | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`lanes` for rows of `lanes_events.sql` or `lanes_commands.sql` that were read before."""
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
    return (await rules_and_secrets(session, kind, type_))[0]


async def rules_and_secrets(
    session: Session, kind: str, type_: str
) -> tuple[list[dict[str, Any]], list[str]]:
    found = await session.fetchrow("declared_rules", kind, type_)
    if found is None:
        return [], []
    retry = found["retry"]
    return [] if retry is None else orjson.loads(retry), found["secret_keys"]


async def secret_keys(
    session: Session, kind: str, types: Collection[str] | None = None
) -> list[str]:
    wanted = None if types is None else sorted(types)
    return [row["name"] for row in await session.fetch("secret_keys", kind, wanted)]


async def progress(session: Session, limit: int) -> list[dict[str, Any]]:
    rows = await session.fetch("status_progress", limit)
    decoded = [dict(row) for row in rows]
    for row in decoded:
        row["done"], row["total"] = orjson.loads(row["done"]), orjson.loads(row["total"] or "null")
    return decoded


async def workers(session: Session, *, ended: bool, limit: int) -> list[Row]:
    """Present workers; with `ended`, also those that ended within a week."""
    return await session.fetch("list_workers", ended, limit)


async def server(session: Session) -> Row:
    return await session.one("check_server")


async def missing_privileges(
    session: Session, role: str | None = None, whose: Whose = "worker"
) -> list[Row]:
    """Missing privileges of a role (None: this one): privilege, object, remedy (SQL)."""
    called = [each.name for each in migrations.functions() if whose in each.roles]
    if whose == "worker":
        return await session.fetch("check_privileges", role, called)
    statement = "check_readers" if whose in ("operator", "viewer") else "check_senders"
    return await session.fetch(statement, role, whose, called)


async def missing_roles(session: Session) -> list[str]:
    return [row["name"] for row in await session.fetch("missing_roles")]


async def role_to_grant(session: Session, whose: Whose) -> str | None:
    """The role with the needed privileges, if granting it would give them to this role."""
    name: str | None = await session.fetchval("role_to_grant", whose)
    return name


async def not_inherited(session: Session, whose: Whose) -> str | None:
    """SQL that lets this role inherit the privileges of a membership that it already has."""
    remedy: str | None = await session.fetchval("not_inherited", whose)
    return remedy


async def silenced(session: Session) -> list[str]:
    """Roles and databases whose inserts do not wake workers."""
    return [row[0] for row in await session.fetch("check_silenced")]
