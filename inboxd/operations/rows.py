"""What actions on rows share: rows held before they are judged, refusals, the audit.

Promises: a row's status is judged while the row is locked, and a refusal names each row that does
not allow the action, and how it stands. Known limit: all of it belongs into the caller's
transaction.
"""

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from inboxd.errors import Conflict, NotFound
from inboxd.model.lifecycle import Status
from inboxd.store import operations as store
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import Place

RowId = int | UUID
T = TypeVar("T", int, UUID)


async def hold(session: Session, place: Place, ids: Sequence[RowId]) -> list[Row]:
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
            f"there is no {one(place)} {listed(unknown)}; nothing was changed: "
            f"look the id up with `inboxd {place} list`"
        )
    return rows


def _without(rows: Sequence[Row], ids: Sequence[T]) -> list[T]:
    found = {key for row in rows for key in (row["id"], row["uuid"])}
    return [one for one in ids if one not in found]


def refuse(place: Place, rows: Sequence[Row], action: str, allowed: Sequence[Status]) -> None:
    """Raise Conflict when a row has left the hot table, or its status is none of those allowed."""
    wrong = [_how(row) for row in rows if not row["hot"] or row["status"] not in allowed]
    if wrong:
        raise Conflict(
            f"{one(place)} {listed(wrong)}: only {' or '.join(allowed)} can be {action}; "
            "nothing was changed"
        )


def _how(row: Row) -> str:
    if row["status"] == Status.FAILED and not row["hot"]:
        return f"{row['id']} was replayed as another row"
    return f"{row['id']} is {row['status']}"


async def record(
    session: Session,
    place: Place,
    action: store.Audited,
    ids: Sequence[int],
    actor: str,
    reason: str | None,
    *,
    to: str | None = None,
) -> None:
    """Note what was done to which rows."""
    target = f"{place} {', '.join(map(str, ids))}"
    await store.record(session, actor, action, target, reason, len(ids), to=to)


def one(place: Place) -> str:
    """What a single row of the table is called."""
    return place.removesuffix("s")


_SHOWN = 10


def listed(items: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more
