"""Cancels batches and workflows, and closes batches by hand.

Promises: after the commit no member of a cancelled batch starts; workers end the members for which
a session has no time. Known limit: running members are only asked to stop; dead letters stay.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

import anyio

from inboxd.errors import Conflict, NotFound
from inboxd.operations.bulk import Selection, preview
from inboxd.store import batch_listing, wakeups
from inboxd.store import batches as store
from inboxd.store import operations as audit
from inboxd.store.connections import Row
from inboxd.store.session import Session

Kind = Literal["batch", "workflow"]
AnyRow = Row | Mapping[str, Any]


class BatchEnded(NamedTuple):
    id: int
    name: str
    unsettled: int


async def cancel_batch(
    session: Session,
    id: int | UUID,
    *,
    actor: str,
    reason: str | None = None,
    kind: Kind | None = None,
    within: float = math.inf,
) -> BatchEnded:
    """within: seconds; then workers end the members. Raises NotFound, Conflict."""
    async with session.transaction():
        row = await _hold(session, id)
        check_kind(row, kind)
        check_cancel(row)
        await batch_listing.cancel(session, row["id"])
        await audit.record(
            session, actor, "cancel", f"{row['kind']} {row['id']}", reason, row["unsettled"]
        )
        await wakeups.notify(session, "commands")
    await _fold(session, [row["id"]], within)
    return BatchEnded(row["id"], row["name"], row["unsettled"])


async def close_batch(
    session: Session,
    id: int | UUID,
    *,
    actor: str,
    reason: str | None = None,
    within: float = math.inf,
) -> BatchEnded:
    """An expired batch can be closed, too. within: as `cancel_batch`. Raises NotFound, Conflict."""
    async with session.transaction():
        row = await _hold(session, id)
        check_close(row)
        todo = await store.close(session, row["batch_id"])
        await audit.record(
            session, actor, "close", f"{row['kind']} {row['id']}", reason, row["unsettled"]
        )
    await _fold(session, todo, within)
    return BatchEnded(row["id"], row["name"], row["unsettled"])


def check_cancel(row: AnyRow) -> None:
    """Raise Conflict if the batch has ended, or is being cancelled."""
    if row["unsettled"] == 0 and (row["closed_at"] or row["ending"]) is not None:
        raise Conflict(f"{_named(row)} has ended ({row['status']}); nothing was changed")
    if row["ending"] is not None:
        raise Conflict(f"{_named(row)} is being cancelled already; nothing was changed")


def check_close(row: AnyRow) -> None:
    """Raise Conflict if the batch is closed."""
    if row["closed_at"] is not None:
        raise Conflict(f"{_named(row)} is closed already; nothing was changed")


async def resumable(session: Session, id: int | UUID) -> None:
    """Raise NotFound; Conflict unless it is a workflow with dead letters and not cancelled."""
    row = await batch_listing.one(session, id)
    if row is None:
        raise _unknown(id)
    check_kind(row, "workflow")
    if row["ending"] is not None:
        raise Conflict(f"{_named(row)} was cancelled, so its steps cannot start any more")
    found = await preview(session, "commands", "replay", Selection(batch=row["id"]), rows=0)
    if not found.count:
        raise Conflict(
            f"{_named(row)} is {row['status']}, and has no dead letter to resume from; nothing was "
            "changed"
        )


async def has_batches(session: Session, id: int) -> bool:
    """Each nested batch counts as one member of it."""
    return bool(await batch_listing.nested(session, id, 1))


def check_kind(row: Row, kind: Kind | None) -> None:
    """Raise Conflict if the row has the other kind."""
    if kind not in (None, row["kind"]):
        raise Conflict(f"{_named(row)} is not a {kind}: see `inboxd batches show {row['id']}`")


async def _hold(session: Session, id: int | UUID) -> Row:
    row = await batch_listing.lock(session, id)
    if row is None:
        raise _unknown(id)
    return row


def _unknown(id: int | UUID) -> NotFound:
    return NotFound(
        f"there is no batch {id}; nothing was changed: look the id up with "
        "`inboxd batches list` or `inboxd workflows list`"
    )


def _named(row: AnyRow) -> str:
    return (
        f"{row['kind']} {row['id']} ({row['name']})"
        if row["name"]
        else f"{row['kind']} {row['id']}"
    )


async def _fold(session: Session, batches: Sequence[int], within: float) -> None:
    """Fold batches and the batches around them; workers fold the batches nested in them."""
    with anyio.move_on_after(within):
        for each in batches:
            batch: int | None = each
            while batch is not None:
                folded = await store.fold(session, [batch])
                more = any(found.more for found in folded)
                batch = batch if more else next((found.parent for found in folded), None)
