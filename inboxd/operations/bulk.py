"""One action on all rows that match: page by page, at a bounded rate, with one audit entry.

Promises: each page is a transaction that also adds to the count in the audit entry, so an
interruption leaves it right; a row is checked again while it is locked; each row is visited once;
rows that were written later are left out. Known limit: so are rows that begin to match below the
current id.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, tzinfo
from time import monotonic
from typing import Any
from uuid import UUID

import anyio

from inboxd.errors import NotFound, UsageError
from inboxd.model.moments import read_since
from inboxd.model.row_id import read_row_id
from inboxd.operations.consequences import Consequences, consequences_of
from inboxd.operations.failures import whole_name
from inboxd.operations.filters import read_entity, read_when
from inboxd.operations.held_rows import ExpectedRows, RowId, hold, seen_as
from inboxd.operations.rows import ROW_ACTIONS, Action
from inboxd.settings import Settings
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.finding import When
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_PAGE_ROWS = 500
_IDS_AHEAD = 10_000  # the most ids that are looked up at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """rate: rows per second. on_page: gets the number of rows done. Raises UsageError."""

    actor: str
    reason: str | None = None
    rate: float | None = None
    on_page: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not self.rate > 0:
            raise UsageError(
                f"a rate of {self.rate:g} rows a second is not valid: give more than 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects rows whose status allows an action; a field of None selects any.

    lane: topic or queue. by: the time that since and until (not included) select by; None: created.
    entity: TYPE or TYPE:ID. error: a part of the newest error. group: a fingerprint, or its
    beginning. batch: members of nested batches match too. tenants: only their rows.
    """

    type: str | None = None
    lane: str | None = None
    tenant: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    by: When | None = None
    entity: str | None = None
    error: str | None = None
    group: str | None = None
    batch: int | UUID | None = None
    tenants: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """Return the text for the audit."""
        return " ".join(
            f"{name}={','.join(value) if isinstance(value, tuple) else value}"
            for name, value in self.given.items()
        )

    @property
    def given(self) -> dict[str, Any]:
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def of_tenants(self) -> tuple[str, ...] | None:
        """None stands for the rows of all tenants."""
        if self.tenant is None:
            return self.tenants
        return (self.tenant,) if self.tenants is None or self.tenant in self.tenants else ()


def read_selection(
    texts: Mapping[str, str | None],
    *,
    tenants: Collection[str] | None = None,
    zone: tzinfo | None = None,
) -> Selection:
    """A missing text, or None, selects any row. Raises UsageError."""
    since, until, batch, entity = (
        texts.get(name) for name in ("since", "until", "batch", "entity")
    )
    by = read_when(texts.get("by") or "created")
    if by != "created" and since is None and until is None:
        raise UsageError(f"by {by!r} needs a time: give since or until")
    if entity is not None and not any(read_entity(entity)):
        raise UsageError(f"{entity!r} is not a valid entity: give TYPE or TYPE:ID")
    return Selection(
        type=texts.get("type"),
        lane=texts.get("lane"),
        tenant=texts.get("tenant"),
        since=None if since is None else read_since(since, zone),
        until=None if until is None else read_since(until, zone),
        by=None if by == "created" else by,
        entity=entity,
        error=texts.get("error"),
        group=texts.get("group"),
        batch=None if batch is None else read_row_id(batch),
        tenants=None if tenants is None else tuple(sorted(tenants)),
    )


@dataclass(frozen=True, slots=True)
class ActionPreview:
    """`count` is exact if `whole` is set, else a lower bound; `last` is the largest id looked at.

    seen: state of named rows. Only for an order, `looked` is the number of first rows that
    `follows` and `spread` are about; `spread` has their largest pairs of a type and a tenant.
    """

    count: int
    sample: tuple[dict[str, Any], ...]
    follows: Consequences | None = None
    seen: str | None = None
    whole: bool = True
    last: int = 0
    looked: int = 0
    spread: tuple[dict[str, Any], ...] = ()


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
    """Raises as the action does; NotFound for an unknown batch or group, UsageError for several.

    settings: the consequences for other rows are by these; None: without consequences. Known limit:
    only the action itself finds some conflicts, such as a unique key that is taken.
    """
    if isinstance(wanted, Selection):
        match = await match_of(
            session, table, ROW_ACTIONS[action].allowed, await in_full(session, wanted)
        )
        count, last = await store.count(session, table, match)
        ids = await store.matching(session, table, match, 0, last, rows)
        sample = await store.sample(session, table, ids)
        return ActionPreview(count, tuple(map(dict, sample)))
    async with session.transaction():
        held = await hold(session, table, wanted, ROW_ACTIONS[action], expected or ExpectedRows())
    ids = [row["id"] for row in held]
    sample = await store.sample(session, table, ids[:rows])
    follows = None
    if settings is not None:
        follows = await consequences_of(session, settings, table, ids)
    return ActionPreview(len(ids), tuple(map(dict, sample)), follows, seen_as(held))


async def act_on_all(
    session: Session, table: HotTable, action: Action, wanted: Selection, terms: Terms
) -> int:
    """Skip rows that cannot be replayed: their unique key is held, or their batch was cancelled."""
    wanted = await in_full(session, wanted)
    match = await match_of(session, table, ROW_ACTIONS[action].allowed, wanted)
    row_action, target = ROW_ACTIONS[action], f"{table} {wanted}".rstrip()
    entry, total = None, 0
    async for page in _pages(session, table, match, terms.rate):
        begun = monotonic()
        async with session.transaction():
            held = await store.lock(session, table, page, [], ending=row_action.ends)
            able = [row["id"] for row in await store.still_matching(session, table, match, held)]
            done = len(await row_action.do(session, table, able, terms.actor, terms.reason))
            if entry is None:
                entry = await store.record(session, terms.actor, action, target, terms.reason, done)
            else:
                await store.record_more(session, entry, done)
            await wakeups.notify(session, table)
        total += done
        if terms.on_page is not None:
            terms.on_page(total)
        if terms.rate is not None:
            await anyio.sleep(max(0.0, done / terms.rate - (monotonic() - begun)))
    return total


async def in_full(session: Session, wanted: Selection) -> Selection:
    if wanted.group is None:
        return wanted
    return replace(wanted, group=await whole_name(session, wanted.group))


async def _pages(
    session: Session, table: HotTable, match: store.Match, rate: float | None
) -> AsyncIterator[Sequence[int]]:
    size = _PAGE_ROWS if rate is None else max(1, min(_PAGE_ROWS, int(rate)))
    _, last = await store.count(session, table, match)
    above = 0
    while ids := await store.matching(session, table, match, above, last, _IDS_AHEAD):
        for first in range(0, len(ids), size):
            yield ids[first : first + size]
        above = ids[-1]


async def match_of(
    session: Session, table: HotTable, statuses: Sequence[str], wanted: Selection
) -> store.Match:
    batches = None
    if wanted.batch is not None:
        if table == "events":
            raise UsageError("an event cannot be in a batch: leave out the batch, or use commands")
        batches = await store.batches_within(session, wanted.batch)
        if not batches:
            raise NotFound(f"there is no batch {wanted.batch}; nothing was changed")
    if wanted.error is not None or wanted.by in ("failed", "done"):
        session.refuse_withheld("error texts")
    entity_type, entity_id = read_entity(wanted.entity or "")
    return store.Match(
        statuses,
        wanted.type,
        wanted.lane,
        wanted.of_tenants,
        wanted.since,
        wanted.error,
        wanted.group,
        batches,
        wanted.until,
        entity_type,
        entity_id,
        wanted.by,
    )
