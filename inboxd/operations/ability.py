"""Whether what is not every operator's can be done by this session's role.

Owns which rights an action needs of the role beside those that an operator's has.
Promises that it writes nothing to find out.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from inboxd.store import rights
from inboxd.store.connections import Row
from inboxd.store.rights import NeededRight
from inboxd.store.session import Session

ReservedAction = Literal[
    "emit",
    "send",
    "run",
    "add schedule",
    "change schedule",
    "remove schedule",
    "replay-with",
    "drain",
    "erase",
]
# What is not every operator's. A session that locks a row must be allowed to change it.
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
            "command_id, queue, type, schema_version, payload, priority, run_at, deadline, "
            "max_attempts, tenant, entity_type, entity_id, origin_kind, origin_id, "
            "correlation_id, causation_id, traceparent, ordering_key, batch_id, needs, awaited, "
            "status, unique_key",
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
    "drain": (NeededRight("EXECUTE", "receive"), NeededRight("EXECUTE", "erased")),
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
    """The rights that this session's role lacks for an action, in words."""
    return _words(session, await rights.lacking(session, RIGHTS[action]))


def _words(session: Session, found: Sequence[Row]) -> list[str]:
    return [f"{row['privilege']} on {session.sql.schema}.{row['object']}" for row in found]
