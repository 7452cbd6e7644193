"""What an operator may do to rows: retry a dead letter, cancel a command.

Owns the rules of the actions that the command line and the admin screens share. Promises: an
action on several rows is done to all of them or to none; it is a legal transition, judged while
the rows are locked and refused by SQL as well (promise 8); it is audited in the transaction that
does it; workers are woken when that commits, since no INSERT wakes them.
Known limit: a running command is only asked to end. Its worker hears it with its next heartbeat,
and a command that ends before that has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from inboxd.errors import Conflict, NotFound
from inboxd.model.lifecycle import Status
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import Place

RowId = int | UUID
T = TypeVar("T", int, UUID)

_CANCELLABLE = (Status.PENDING, Status.WAITING, Status.RUNNING)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The ids of commands that were cancelled, and of those whose worker was asked to end them."""

    at_once: tuple[int, ...]
    requested: tuple[int, ...]


async def retry(
    session: Session, place: Place, ids: Sequence[RowId], *, actor: str, reason: str | None = None
) -> tuple[int, ...]:
    """Let dead letters run again now, their attempts and crashes counted anew.

    ids: row numbers and uuids, mixed. Returns the rows' numbers. Raises NotFound, or Conflict when
    one of them is no dead letter; then nothing is changed.
    """
    async with session.connection.transaction():
        rows = await _hold(session, place, ids)
        _refuse(place, rows, "retried", (Status.FAILED,))
        changed = tuple(await store.retry(session, place, [row["id"] for row in rows]))
        await _record(session, place, "retry", changed, actor, reason)
        await wakeups.notify(session.connection, session.sql, place)
    return changed


async def cancel(
    session: Session, ids: Sequence[RowId], *, actor: str, reason: str | None = None
) -> Cancelled:
    """End commands that have not ended: at once, or by their worker when they run.

    ids: row numbers and uuids, mixed. Raises NotFound, or Conflict when one of them has ended;
    then nothing is changed.
    """
    async with session.connection.transaction():
        rows = await _hold(session, "commands", ids)
        _refuse("commands", rows, "cancelled", _CANCELLABLE)
        held = [row["id"] for row in rows]
        done = Cancelled(
            at_once=tuple(await store.cancel(session, held)),
            requested=tuple(await store.request_cancel(session, held)),
        )
        await _record(session, "commands", "cancel", done.at_once + done.requested, actor, reason)
        await wakeups.notify(session.connection, session.sql, "commands")
    return done


async def _hold(session: Session, place: Place, ids: Sequence[RowId]) -> list[Row]:
    """The rows, those that are hot locked. Raises NotFound, naming the ids that no row has."""
    numbers = [one for one in ids if isinstance(one, int)]
    uuids = [one for one in ids if isinstance(one, UUID)]
    rows = await store.lock(session, place, numbers, uuids)
    numbers, uuids = _without(rows, numbers), _without(rows, uuids)
    if numbers or uuids:
        # Looked for afterwards: a row that was just settled is found in history.
        rows += await store.settled(session, place, numbers, uuids)
    if unknown := [*_without(rows, numbers), *_without(rows, uuids)]:
        raise NotFound(
            f"there is no {_one(place)} {_listed(unknown)}; nothing was changed: "
            f"look the id up with `inboxd {place} list`"
        )
    return rows


def _without(rows: Sequence[Row], ids: Sequence[T]) -> list[T]:
    found = {key for row in rows for key in (row["id"], row["uuid"])}
    return [one for one in ids if one not in found]


def _refuse(place: Place, rows: Sequence[Row], action: str, allowed: Sequence[Status]) -> None:
    """Raise Conflict when a row's status is none of those allowed."""
    wrong = [f"{row['id']} is {row['status']}" for row in rows if row["status"] not in allowed]
    if wrong:
        raise Conflict(
            f"{_one(place)} {_listed(wrong)}: only {' or '.join(allowed)} can be {action}; "
            "nothing was changed"
        )


async def _record(
    session: Session,
    place: Place,
    action: str,
    ids: Sequence[int],
    actor: str,
    reason: str | None,
) -> None:
    target = f"{place} {', '.join(map(str, ids))}"
    await store.record(session, actor, action, target, reason, len(ids))


def _one(place: Place) -> str:
    return place.removesuffix("s")


_SHOWN = 10


def _listed(items: Sequence[object]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more
