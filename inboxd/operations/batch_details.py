"""Batches and workflows as JSON values, for lists and single views.

Promises that counts do not read members, that a list looks at no more than `LOOKED` rows, and that
one view has at most 100 dead letters, 100 nested batches and `STEPS` steps, by name.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from inboxd.errors import NotFound
from inboxd.model.lifecycle import Status
from inboxd.operations.batches import Kind, check_kind
from inboxd.operations.finding import Found, in_requests
from inboxd.operations.story import created_by, waits_of
from inboxd.operations.walks import CLOCK
from inboxd.store import batch_listing
from inboxd.store.batch_listing import BatchFilter
from inboxd.store.connections import Row
from inboxd.store.session import Session

STEPS = 1_000
SHOWN = 100
_LOOKED = 1_000
# The most rows that a request for a list looks at.
LOOKED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Members:
    """nested: only on the first page. whole: all settled members were looked at."""

    rows: list[dict[str, Any]]
    nested: list[dict[str, Any]]
    next: int | None
    whole: bool


async def batch_rows(session: Session, wanted: BatchFilter, look: int | None = None) -> Found:
    """look: the most rows, in several requests; None: one request. A full page has a next id."""

    async def ask(below: int | None, limit: int, look: int) -> Found:
        return await _request(session, replace(wanted, below=below, limit=limit), look)

    return await in_requests(ask, below=wanted.below, limit=wanted.limit, look=look or LOOKED)


async def _request(session: Session, wanted: BatchFilter, look: int) -> Found:
    most = min(look, LOOKED)
    seen = await batch_listing.look(session, wanted, most)
    if len(seen.rows) == wanted.limit:
        return Found(seen.rows, seen.looked, seen.rows[-1]["id"], seen.rows[-1]["created_at"])
    # No row below one that ended before `since` was created at it or later.
    since = wanted.since
    past = since is not None and seen.ended is not None and seen.ended + CLOCK < since
    if past or seen.looked < most:
        return Found(seen.rows, seen.looked, None, None)
    return Found(seen.rows, seen.looked, seen.low, seen.low_created_at)


async def batch_details(
    session: Session, id: int | UUID, kind: Kind | None = None
) -> dict[str, Any]:
    """Raises NotFound; Conflict if it has another kind."""
    row = await batch_listing.one(session, id)
    if row is None:
        raise NotFound(
            f"there is no batch {id}: look the id up with `inboxd batches list` or "
            "`inboxd workflows list`"
        )
    check_kind(row, kind)
    created = await created_by(session, "batch", row["id"], row["batch_id"], row["created_at"])
    keys = ("kind", "id", "type", "status")
    waits = row["status"] == Status.WAITING  # no member has run yet
    return {
        **dict(row),
        "steps": await _steps(session, row),
        "waits_for": await waits_of(session, row["batch_id"]) if waits else [],
        "waiting": _dicts(await batch_listing.continuations(session, row["batch_id"], SHOWN)),
        "created": [{key: getattr(each, key) for key in keys} for each in created],
        "failures": []
        if waits
        else _dicts(await batch_listing.failures(session, row["id"], SHOWN)),
    }


async def _steps(session: Session, row: Row) -> list[dict[str, Any]]:
    if row["kind"] != "workflow":
        return []
    found = await batch_listing.steps(session, row["id"], STEPS, row["created_at"])
    names = {str(step["member"]): step["name"] for step in found}
    steps = []
    for step in _dicts(found):
        del step["member"]
        # A uuid without a name is a batch outside the workflow, or a step beyond `STEPS`.
        waits = (each.partition(" ") for each in step["waits"])
        step["waits"] = sorted(f"{names.get(needs, needs)} {how}" for needs, _, how in waits)
        steps.append(step)
    return steps


async def members_of(
    session: Session,
    batch: int,
    created_at: datetime,
    statuses: Collection[str],
    *,
    after: int,
    limit: int,
) -> Members:
    """Empty `statuses` mean any status."""
    found = await batch_listing.members(
        session, batch, statuses, after, limit + 1, _LOOKED, created_at
    )
    rows = [_member(row) for row in found if row["id"] is not None]
    next_ = rows[limit - 1]["id"] if len(rows) > limit else found[0]["high"]
    nested = [] if after else _dicts(await batch_listing.nested(session, batch, SHOWN))
    return Members(rows[:limit], nested, next_, found[0]["settled"] < _LOOKED)


def _member(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("settled", "high")}


def _dicts(rows: Collection[Row]) -> list[dict[str, Any]]:
    return [dict(row) for row in rows]
