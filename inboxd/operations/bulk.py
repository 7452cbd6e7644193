"""One action on all rows that match: page by page, at a bounded rate, audited as one.

Owns the selection, its preview, and the loop over pages. Promises: each page is a transaction of
its own and is counted in the action's entry of the audit by that transaction, so that an
interrupted action leaves a true audit; a row is judged again while it is locked, and left alone
when it matches no more; each row is met once, and none that was made after the action began.
Known limit: rows that come to match meanwhile, below where the action is, are left.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from time import monotonic
from typing import Any
from uuid import UUID

import anyio

from inboxd.errors import NotFound, UsageError
from inboxd.operations.consequences import Consequences, consequences_of
from inboxd.operations.failures import whole_name
from inboxd.operations.held_rows import ExpectedRows, RowId, hold, seen_as
from inboxd.operations.rows import DEEDS, Action
from inboxd.settings import Settings
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_PAGE = 500
_AHEAD = 10_000  # ids looked up at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The actor, the reason, the rate, and what is called after each page.

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
            raise UsageError(
                f"a rate of {self.rate:g} rows a second is not valid: give more than 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows an action is meant for, among those whose status allows it; None takes any.

    lane: topic or queue. error: a part of the newest error. group: the fingerprint of a failure
    group, or its beginning. batch: its number or uuid; what is in batches within it matches too.
    tenants: whoever selects acts on rows of these alone.
    """

    type: str | None = None
    lane: str | None = None
    tenant: str | None = None
    since: datetime | None = None
    error: str | None = None
    group: str | None = None
    batch: int | UUID | None = None
    tenants: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """As the audit has it."""
        given = ((each.name, getattr(self, each.name)) for each in fields(self))
        return " ".join(
            f"{name}={','.join(value) if isinstance(value, tuple) else value}"
            for name, value in given
            if value is not None
        )

    @property
    def of_tenants(self) -> tuple[str, ...] | None:
        """The tenants whose rows are meant; None: any."""
        if self.tenant is None:
            return self.tenants
        return (self.tenant,) if self.tenants is None or self.tenant in self.tenants else ()


@dataclass(frozen=True, slots=True)
class ActionPreview:
    """What an action would be done to: how many rows, and the first of them.

    Of rows that are named also what follows from it, where that was asked, and as what they were
    seen. whole: so many; else at least. last: the largest id that was looked at, of all rows.
    """

    count: int
    sample: tuple[dict[str, Any], ...]
    follows: Consequences | None = None
    seen: str | None = None
    whole: bool = True
    last: int = 0


async def preview(
    session: Session,
    table: HotTable,
    action: Action,
    wanted: Sequence[RowId] | Selection,
    *,
    rows: int = 10,
    expected: ExpectedRows | None = None,
    settings: Settings | None = None,
) -> ActionPreview:
    """What the action would be done to now: to rows that are named, or to all that match.

    settings: tell what follows from it for others, as far as these know.
    Raises NotFound and Conflict as the action does; NotFound for a batch or a group that is not
    there, UsageError for the start of several groups. What only the action itself finds out, such
    as a unique key that is taken, is not seen.
    """
    if isinstance(wanted, Selection):
        match = await match_of(
            session, table, DEEDS[action].allowed, await in_full(session, wanted)
        )
        count, last = await store.count(session, table, match)
        ids = await store.matching(session, table, match, 0, last, rows)
        sample = await store.sample(session, table, ids)
        return ActionPreview(count, tuple(map(dict, sample)))
    async with session.connection.transaction():
        held = await hold(session, table, wanted, DEEDS[action], expected or ExpectedRows())
    ids = [row["id"] for row in held]
    sample = await store.sample(session, table, ids[:rows])
    follows = None
    if settings is not None:
        follows = await consequences_of(session, settings, table, held)
    return ActionPreview(len(ids), tuple(map(dict, sample)), follows, seen_as(held))


async def act_on_all(
    session: Session, table: HotTable, action: Action, wanted: Selection, terms: Terms
) -> int:
    """Do it to all that match; returns to how many. Raises as `preview` does.

    What cannot be replayed, since its unique key is held or its batch was cancelled, is left.
    """
    wanted = await in_full(session, wanted)
    match = await match_of(session, table, DEEDS[action].allowed, wanted)
    deed, target = DEEDS[action], f"{table} {wanted}".rstrip()
    entry, total = None, 0
    async for page in _pages(session, table, match, terms.rate):
        begun = monotonic()
        async with session.connection.transaction():
            held = await store.lock(session, table, page, [], ending=deed.ends)
            able = [row["id"] for row in await store.still_matching(session, table, match, held)]
            done = len(await deed.do(session, table, able, terms.actor, terms.reason))
            if entry is None:
                entry = await store.record(session, terms.actor, action, target, terms.reason, done)
            else:
                await store.record_more(session, entry, done)
            await wakeups.notify(session.connection, session.sql, table)
        total += done
        if terms.on_page is not None:
            terms.on_page(total)
        if terms.rate is not None:
            await anyio.sleep(max(0.0, done / terms.rate - (monotonic() - begun)))
    return total


async def in_full(session: Session, wanted: Selection) -> Selection:
    """The selection with its group's whole name, as the audit shall have it."""
    if wanted.group is None:
        return wanted
    return replace(wanted, group=await whole_name(session, wanted.group))


async def _pages(
    session: Session, table: HotTable, match: store.Match, rate: float | None
) -> AsyncIterator[Sequence[int]]:
    """The ids that match now, a page at a time."""
    size = _PAGE if rate is None else max(1, min(_PAGE, int(rate)))
    _, last = await store.count(session, table, match)
    above = 0
    while ids := await store.matching(session, table, match, above, last, _AHEAD):
        for first in range(0, len(ids), size):
            yield ids[first : first + size]
        above = ids[-1]


async def match_of(
    session: Session, table: HotTable, statuses: Sequence[str], wanted: Selection
) -> store.Match:
    """What is looked for in the database. Raises as `preview` does."""
    batches = None
    if wanted.batch is not None:
        if table == "events":
            raise UsageError("events are in no batch: leave the batch out, or act on commands")
        batches = await store.batches_within(session, wanted.batch)
        if not batches:
            raise NotFound(f"there is no batch {wanted.batch}; nothing was changed")
    if wanted.error is not None:
        session.refuse_withheld("error texts")
    return store.Match(
        statuses,
        wanted.type,
        wanted.lane,
        wanted.of_tenants,
        wanted.since,
        wanted.error,
        wanted.group,
        batches,
    )
