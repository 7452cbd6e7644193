"""Checks, without a write, whether a session can change anything, and which rights it lacks."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal

from inboxd.model.row_columns import columns_of
from inboxd.store import operations as store
from inboxd.store import rights
from inboxd.store.connections import Row
from inboxd.store.rights import NeededRight
from inboxd.store.session import Session


class ReadOnlyReason(StrEnum):
    STANDBY = "standby"
    SERVER = "server"
    ROLE = "role"
    AWAY = "away"


async def read_only_reason(session: Session) -> ReadOnlyReason | None:
    found = await store.ability(session)
    if found["standby"]:
        return ReadOnlyReason.STANDBY
    if found["read_only"]:
        return ReadOnlyReason.SERVER
    return None if found["may"] else ReadOnlyReason.ROLE


ReservedAction = Literal[
    "emit",
    "send",
    "run",
    "add schedule",
    "change schedule",
    "remove schedule",
    "replay-with",
    "edit",
    "drain",
    "add endpoint",
    "change endpoint",
    "rotate endpoint",
    "remove endpoint",
    "erase",
]
# The columns that insert_commands.sql fills besides those that a sender gives.
_OF_HANDLERS = ("origin_kind", "origin_id", "batch_id", "needs", "awaited", "status")
# Rights that some operators lack. Locking a row needs the right to change it.
RIGHTS: Final[Mapping[ReservedAction, Sequence[NeededRight]]] = {
    "emit": (NeededRight("EXECUTE", "emit_event"),),
    "send": (NeededRight("EXECUTE", "send_command"),),
    "run": (
        NeededRight("SELECT", "schedules", "payload"),
        NeededRight("UPDATE", "schedules", "next_at, last_at, updated_at"),
        NeededRight(
            "INSERT",
            "events",
            "topic, type, schema_version, source, tenant, payload, correlation_id, occurred_at",
        ),
        NeededRight(
            "INSERT",
            "commands",
            ", ".join((*columns_of("command"), *_OF_HANDLERS)),
        ),
        NeededRight("EXECUTE", "new_uuid"),
    ),
    "add schedule": (NeededRight("INSERT", "schedules"),),
    "change schedule": (
        NeededRight("SELECT", "schedules", "payload"),
        NeededRight("UPDATE", "schedules"),
    ),
    "remove schedule": (
        NeededRight("SELECT", "schedules", "payload"),
        NeededRight("UPDATE", "schedules"),
        NeededRight("DELETE", "schedules"),
        NeededRight("DELETE", "controls"),
    ),
    "replay-with": (NeededRight("EXECUTE", "replace_payload"),),
    "edit": (NeededRight("EXECUTE", "edit_payload"),),
    "drain": (NeededRight("EXECUTE", "receive"), NeededRight("EXECUTE", "erased")),
    "add endpoint": (NeededRight("INSERT", "endpoints"),),
    "change endpoint": (
        NeededRight(
            "UPDATE",
            "endpoints",
            "url, types, ordered, events, rate, concurrency, disable_after",
        ),
    ),
    "rotate endpoint": (
        NeededRight("SELECT", "endpoints", "secrets"),
        NeededRight("UPDATE", "endpoints", "secrets"),
    ),
    "remove endpoint": (NeededRight("DELETE", "endpoints"),),
    "erase": (
        NeededRight("UPDATE", "events_history"),
        NeededRight("UPDATE", "commands_history"),
        NeededRight("DELETE", "bodies"),
        NeededRight("UPDATE", "receipts"),
        NeededRight("UPDATE", "kept_receipts"),
        NeededRight("UPDATE", "held_receipts"),
        NeededRight("SELECT", "bodies"),
        NeededRight("DELETE", "events"),
        NeededRight("DELETE", "commands"),
        NeededRight("UPDATE", "audit"),
        NeededRight("SELECT", "census"),
        NeededRight("INSERT", "census"),
        NeededRight("UPDATE", "census"),
        NeededRight("SELECT", "census_types"),
        NeededRight("DELETE", "census_types"),
        NeededRight("SELECT", "census_tenants"),
        NeededRight("DELETE", "census_tenants"),
        NeededRight("EXECUTE", "begin_census"),
        NeededRight("EXECUTE", "erase_receipts"),
    ),
}


async def lacking_rights(session: Session, action: ReservedAction) -> list[str]:
    return _words(session, await rights.lacking(session, RIGHTS[action]))


async def why_denied(session: Session, action: ReservedAction) -> str | None:
    """The text names the role, the rights that it lacks, and the remedy."""
    found = await rights.lacking(session, RIGHTS[action])
    if not found:
        return None
    lack = f"the database role {found[0]['role']} lacks {', '.join(_words(session, found))}"
    if action == "erase":
        return (
            f"{lack}: run `inboxd erase` as the schema's owner; workers should not have that role"
        )
    remedies = "; ".join(row["remedy"] for row in found)
    return f"{lack}: as the schema's owner, run `{remedies}`"


def _words(session: Session, found: Sequence[Row]) -> list[str]:
    return [f"{row['privilege']} on {session.sql.schema}.{row['object']}" for row in found]
