"""Pauses, resumes and aborts bulk actions, with an audit entry each.

Promises: aborting an action before it starts undoes it; rows that were changed stay changed.
"""

from collections.abc import Collection, Mapping
from typing import Any

from inboxd.errors import Conflict
from inboxd.operations.bulk_orders import OPEN, checked, document
from inboxd.store import bulk_actions as store
from inboxd.store import operations as audit
from inboxd.store.connections import Row
from inboxd.store.session import Session


def check_control(shown: Mapping[str, Any], control: str) -> None:
    """Raise Conflict if an order cannot be paused, resumed or aborted now."""
    id_, status = shown["id"], shown["status"]
    if status not in OPEN:
        raise Conflict(f"action {id_} has ended ({status}); nothing was changed")
    if control == "pause" and status == "paused":
        raise Conflict(f"action {id_} is paused already: {shown['note']}; nothing was changed")
    if control == "resume" and status != "paused":
        raise Conflict(f"action {id_} is {status}, not paused; nothing was changed")


async def pause_order(
    session: Session,
    id: int,
    *,
    actor: str,
    reason: str | None = None,
    tenants: Collection[str] | None = None,
) -> dict[str, Any]:
    """Raises NotFound; Conflict if it is paused already, or has ended."""
    async with session.transaction():
        row = await _hold(session, id, tenants, "pause")
        await store.pause(session, id, f"by {actor}" + (f": {reason}" if reason else ""))
        return await _controlled(session, row, "pause", actor, reason)


async def resume_order(
    session: Session,
    id: int,
    *,
    actor: str,
    reason: str | None = None,
    tenants: Collection[str] | None = None,
    seen: str | None = None,
) -> dict[str, Any]:
    """seen: the reason of the pause. Raises NotFound; Conflict if it is not paused."""
    async with session.transaction():
        row = await _hold(session, id, tenants, "resume")
        if seen is not None and row["note"] != seen:
            raise Conflict(f"action {id} is now paused for another reason: {row['note']}")
        await store.resume(session, id)
        return await _controlled(session, row, "resume", actor, reason)


async def abort_order(
    session: Session,
    id: int,
    *,
    actor: str,
    reason: str | None = None,
    tenants: Collection[str] | None = None,
) -> dict[str, Any]:
    """Raises NotFound; Conflict if it has ended."""
    async with session.transaction():
        row = await _hold(session, id, tenants, "abort")
        await store.abort(session, id)
        return await _controlled(session, row, "abort", actor, reason)


async def _hold(session: Session, id: int, tenants: Collection[str] | None, control: str) -> Row:
    row = checked(await store.hold(session, id), id, tenants)
    check_control(document(row), control)
    return row


async def _controlled(
    session: Session, row: Row, action: audit.Audited, actor: str, reason: str | None
) -> dict[str, Any]:
    await audit.record(session, actor, action, f"action {row['id']}", reason, row["done"])
    return document(checked(await store.one(session, row["id"]), row["id"], None))
