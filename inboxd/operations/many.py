"""One action on all rows that match: page by page, at a bounded rate, audited as one.

Owns the selection and the loop over pages. Promises: each page is a transaction of its own and is
counted in the action's line of the audit by that transaction, so that an interrupted action leaves
a true audit; a row is judged again while it is locked, and left alone when its status has changed;
each row is met once, and none that was made after the action began.
Known limit: rows that come to match meanwhile, below where the action is, are left.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from time import monotonic
from typing import Any, Literal
from uuid import UUID

import anyio

from inboxd.errors import NotFound, UsageError
from inboxd.model.lifecycle import Status
from inboxd.operations.failures import whole_name
from inboxd.operations.rows import RowId, hold, refuse
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.session import Session
from inboxd.store.wakeups import Place

Action = Literal["replay", "dismiss", "cancel"]
STATUSES: dict[Action, tuple[Status, ...]] = {
    "replay": (Status.FAILED,),
    "dismiss": (Status.FAILED,),
    "cancel": (Status.PENDING, Status.WAITING, Status.RUNNING),
}

_DONE: dict[Action, str] = {"replay": "replayed", "dismiss": "dismissed", "cancel": "cancelled"}

_PAGE = 500
_AHEAD = 10_000  # ids looked up at once

# Does it to rows that are locked and of the right status; returns how many it was done to.
Do = Callable[[Session, Place, Sequence[int]], Awaitable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Who acts, why, how fast, and who is told of it.

    rate: rows a second at most. on_page: called after each page with the number done so far.
    Raises UsageError for a rate that is not positive.
    """

    actor: str
    reason: str | None = None
    rate: float | None = None
    on_page: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        """A rate of zero would never end."""
        if self.rate is not None and not self.rate > 0:
            raise UsageError(f"a rate of {self.rate:g} rows a second is none: give more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows an action is meant for, among those whose status allows it; None takes any.

    lane: topic or queue. error: a part of the newest error. group: the fingerprint of a failure
    group, or its beginning. batch: its number or uuid; what is in batches within it matches too.
    """

    type: str | None = None
    lane: str | None = None
    tenant: str | None = None
    since: datetime | None = None
    error: str | None = None
    group: str | None = None
    batch: int | UUID | None = None

    def __str__(self) -> str:
        """As the audit has it."""
        given = ((each.name, getattr(self, each.name)) for each in fields(self))
        return " ".join(f"{name}={value}" for name, value in given if value is not None)


@dataclass(frozen=True, slots=True)
class ActionPreview:
    """What an action would be done to: how many rows, and the first of them."""

    count: int
    sample: tuple[dict[str, Any], ...]


async def preview(
    session: Session, place: Place, action: Action, wanted: Selection, *, rows: int = 10
) -> ActionPreview:
    """What the action would be done to now.

    Raises NotFound for a batch or a group that is not there, UsageError for the start of several
    groups.
    """
    match = await _match(session, place, action, await _in_full(session, wanted))
    count, last = await store.count(session, place, match)
    ids = await store.matching(session, place, match, 0, last, rows)
    return ActionPreview(count, tuple(dict(row) for row in await store.sample(session, place, ids)))


async def preview_named(
    session: Session, place: Place, action: Action, ids: Sequence[RowId], *, rows: int = 10
) -> ActionPreview:
    """What the action would be done to now, of rows that are named: all of them.

    Raises NotFound and Conflict as the action does. What only the action itself finds out, such as
    a unique key that is taken, is not seen.
    """
    async with session.connection.transaction():
        held = await hold(session, place, ids)
        refuse(place, held, _DONE[action], STATUSES[action])
        found = [row["id"] for row in held]
        sample = await store.sample(session, place, found[:rows])
    return ActionPreview(len(found), tuple(dict(row) for row in sample))


async def in_pages(
    session: Session,
    place: Place,
    action: Action,
    wanted: Selection,
    do: Do,
    terms: Terms,
) -> int:
    """Do it to all that match; returns to how many. Raises as `preview` does."""
    wanted = await _in_full(session, wanted)
    match = await _match(session, place, action, wanted)
    target = f"{place} {wanted}".rstrip()
    line, total = None, 0
    async for page in _pages(session, place, match, terms.rate):
        begun = monotonic()
        async with session.connection.transaction():
            held = await store.lock(session, place, page, [])
            able = [row["id"] for row in held if row["status"] in match.statuses]
            done = await do(session, place, able)
            if line is None:
                line = await store.record(session, terms.actor, action, target, terms.reason, done)
            else:
                await store.record_more(session, line, done)
            await wakeups.notify(session.connection, session.sql, place)
        total += done
        if terms.on_page is not None:
            terms.on_page(total)
        if terms.rate is not None:
            await anyio.sleep(max(0.0, done / terms.rate - (monotonic() - begun)))
    return total


async def _in_full(session: Session, wanted: Selection) -> Selection:
    """The selection with its group's whole name, as the audit shall have it."""
    if wanted.group is None:
        return wanted
    return replace(wanted, group=await whole_name(session, wanted.group))


async def _pages(
    session: Session, place: Place, match: store.Match, rate: float | None
) -> AsyncIterator[Sequence[int]]:
    """The ids that match now, a page at a time."""
    size = _PAGE if rate is None else max(1, min(_PAGE, int(rate)))
    _, last = await store.count(session, place, match)
    above = 0
    while ids := await store.matching(session, place, match, above, last, _AHEAD):
        for page in _parts(ids, size):
            yield page
        above = ids[-1]


def _parts(ids: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for first in range(0, len(ids), size):
        yield ids[first : first + size]


async def _match(session: Session, place: Place, action: Action, wanted: Selection) -> store.Match:
    batches = None
    if wanted.batch is not None:
        if place == "events":
            raise UsageError("events are in no batch: leave the batch out, or act on commands")
        batches = await store.batches_within(session, wanted.batch)
        if not batches:
            raise NotFound(f"there is no batch {wanted.batch}; nothing was changed")
    return store.Match(
        STATUSES[action],
        wanted.type,
        wanted.lane,
        wanted.tenant,
        wanted.since,
        wanted.error,
        wanted.group,
        batches,
    )
