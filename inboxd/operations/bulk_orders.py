"""Orders bulk actions: actions on all rows that match, which workers carry out (`bulk_runs`).

Promises: an order covers the matching rows that existed when it was given; its audit entry has the
number of rows that are done. Known limits: counting stops at `COUNTED_TO` rows, and after
`LOOKED_AT` rows looked at. A batch that is later opened inside another one is not covered.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from inboxd.errors import Conflict, NotFound, UsageError
from inboxd.model import checks
from inboxd.model.wording import plural
from inboxd.operations.bulk import ActionPreview, Selection, in_full, match_of
from inboxd.operations.consequences import consequences_of
from inboxd.operations.rows import ROW_ACTIONS, Action, Move, row_action
from inboxd.settings import Settings
from inboxd.store import bulk_actions as store
from inboxd.store import operations as audit
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

Verb = Action | Move

# Rows that must succeed before further rows are replayed.
CANARY: Final = 10
# Unfinished orders at a time: of one actor, and of all.
MOST_OPEN: Final = 20
MOST_OPEN_OF_ALL: Final = 100
LEAST_RATE: Final = 0.001
MOST_RATE: Final = 10_000.0
LONGEST_DELAY: Final = timedelta(days=7)
COUNTED_TO: Final = 100_000
# A preview has the spread and the consequences of this many rows, and this many pairs.
FOLLOWED: Final = 1_000
_PAIRS: Final = 20
LOOKED_AT: Final = 200_000
# The most rows that one statement looks at.
LOOK: Final = 20_000
OPEN: Final = ("scheduled", "canary", "running", "paused")
_SHOWN: Final = (
    *("id", "kind", "verb", "actor", "reason", "status", "note", "starts_at", "rate", "canary"),
    *("counted", "whole", "done", "left_out", "audit_id", "created_at", "began_at", "ended_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerms:
    """delay: until the start. rate: rows per second. canary: rows that must succeed first."""

    to: datetime | int | None = None
    delay: timedelta = timedelta(seconds=5)
    rate: float | None = None
    canary: bool = False

    def __post_init__(self) -> None:
        if self.rate is not None and not LEAST_RATE <= self.rate <= MOST_RATE:
            raise UsageError(
                f"a rate of {self.rate:g} rows a second is not valid: give {LEAST_RATE:g} to "
                f"{MOST_RATE:,.0f}"
            )
        if not timedelta(0) <= self.delay <= LONGEST_DELAY:
            raise UsageError(f"a delay of {self.delay} is not valid: give at most 7 days")
        if isinstance(self.to, datetime):
            checks.refuse(f"the time {self.to}", checks.time(self.to))
        elif self.to is not None:
            checks.refuse(f"priority {self.to}", checks.small(self.to))


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The preview that an actor confirms. last: the largest id; request: the form's id."""

    count: int
    last: int
    request: UUID | None = None


@dataclass(frozen=True, slots=True)
class _Counted:
    """whole: they are all matching rows. last: the largest id."""

    count: int
    whole: bool
    ids: tuple[int, ...]
    last: int


async def preview_all(
    session: Session,
    table: HotTable,
    verb: Verb,
    wanted: Selection,
    *,
    rows: int = 10,
    settings: Settings | None = None,
) -> ActionPreview:
    """settings: adds consequences of the first `FOLLOWED` rows. No match raises nothing."""
    match = await _match(session, table, verb, wanted)
    found = await _count(session, table, match)
    sample = await audit.sample(session, table, found.ids[:rows])
    looked = found.ids[:FOLLOWED]
    spread = await audit.types_and_tenants(session, table, looked, _PAIRS)
    follows = None
    if settings is not None and verb in ROW_ACTIONS:
        follows = await consequences_of(session, settings, table, looked)
    return ActionPreview(
        found.count,
        tuple(map(dict, sample)),
        follows,
        whole=found.whole,
        last=found.last,
        looked=len(looked),
        spread=tuple(map(dict, spread)),
    )


async def order(
    session: Session,
    table: HotTable,
    verb: Verb,
    wanted: Selection,
    terms: OrderTerms,
    *,
    actor: str,
    reason: str | None = None,
    shown: ShownRows | None = None,
) -> dict[str, Any]:
    """Write an order for all matching rows; returns it as `document` does.

    Raises NotFound if no row matches; UsageError for invalid terms; Conflict for too many
    unfinished orders, a form that was used before, or more rows than were shown.
    """
    if terms.canary and verb != "replay":
        raise UsageError(f"there is no canary for {verb}: a canary is only for replay")
    if (terms.to is None) is (verb in ("reschedule", "prioritize")):
        raise UsageError(
            "reschedule needs a time, prioritize a priority, and other actions neither"
        )
    wanted = await in_full(session, wanted)
    match = await _match(session, table, verb, wanted)
    found = await _count(session, table, match, shown.last if shown else None)
    if shown and found.count > shown.count:
        raise Conflict(
            f"{found.count:,} rows match now, more than the {shown.count:,} that were shown; "
            "nothing was ordered: look at them again"
        )
    if found.whole and not found.count:
        raise NotFound(f"no matching row can be {_done(verb)}; nothing was ordered")
    async with session.transaction():
        await _check_room(session, actor)
        action = row_action(verb, terms.to)
        target = f"{table} {wanted}".rstrip()
        entry = await audit.record(session, actor, action.word, target, reason, 0, to=action.to)
        ordered = store.OrderedAction(
            table=table,
            verb=verb,
            to=terms.to,
            match=match,
            actor=actor,
            reason=reason,
            audit_id=entry,
            delay=terms.delay,
            rate=terms.rate,
            canary=CANARY if terms.canary else 0,
            first=found.ids[0] if found.ids else 1,
            last=found.last,
            counted=found.count,
            whole=found.whole,
            request=shown.request if shown else None,
        )
        id_ = await store.order(session, ordered)
        if id_ is None:
            raise Conflict(
                "this form was confirmed before, and its action ordered; nothing more was ordered: "
                "to order it again, open the page again"
            )
        row = await _row(session, id_, None)
    return document(row)


async def orders(
    session: Session,
    *,
    tenants: Collection[str] | None = None,
    below: int | None = None,
    limit: int = 20,
) -> list[dict[str, Any]]:
    """Newest first. tenants: only orders limited to rows of these tenants."""
    return [document(row) for row in await store.listed(session, tenants, below, limit)]


async def one_order(
    session: Session, id: int, *, tenants: Collection[str] | None = None
) -> dict[str, Any]:
    return document(await _row(session, id, tenants))


def statuses_of(verb: Verb) -> tuple[str, ...]:
    return row_action(verb, datetime.now().astimezone() if verb == "reschedule" else 0).allowed


def document(row: Row) -> dict[str, Any]:
    """undone: aborted before it began. selection, note: None if the role cannot read them."""
    return {
        **{name: row[name] for name in _SHOWN},
        "to": row["priority"] if row["run_at"] is None else row["run_at"],
        "selection": None if row["selection"] is None else _selection(row),
        "share": _share(row),
        "undone": row["status"] == "aborted" and row["began_at"] is None,
    }


def told_order(shown: Mapping[str, Any]) -> str:
    rows = plural(shown["done"], shown["kind"])
    if shown["undone"]:
        return "Undone: it was aborted before it began, and nothing was changed."
    at_least = "" if shown["whole"] else "at least "
    of = f"{rows} of {at_least}{shown['counted']:,} {_done(shown['verb'])}"
    left = f", {shown['left_out']:,} skipped" if shown["left_out"] else ""
    return f"{str(shown['status']).capitalize()}: {of}{left}."


def _selection(row: Row) -> dict[str, Any]:
    named = {"fingerprint": "group"}
    return {
        named.get(name, name): value
        for name, value in asdict(store.match_of(row)).items()
        if value is not None and name != "statuses"
    }


def _share(row: Row) -> float:
    if row["status"] == "completed":
        return 1.0
    if row["whole"]:
        part, of = row["done"] + row["left_out"], row["counted"]
    else:
        part, of = row["above"] + 1 - row["first_id"], row["last_id"] + 1 - row["first_id"]
    return min(1.0, float(part / max(1, of)))


def _done(verb: str) -> str:
    return {"cancel": "cancelled", "reschedule": "rescheduled", "dismiss": "dismissed"}.get(
        verb, "replayed" if verb == "replay" else "given another priority"
    )


async def _check_room(session: Session, actor: str) -> None:
    """Lock orders until the transaction ends. Raises Conflict for too many unfinished orders."""
    own, all_ = await store.count_open(session, actor)
    if own >= MOST_OPEN:
        raise Conflict(
            f"{actor} has {MOST_OPEN} unfinished bulk actions, the limit of one actor; nothing was "
            "ordered: `inboxd actions list` shows them"
        )
    if all_ >= MOST_OPEN_OF_ALL:
        raise Conflict(
            f"there are {MOST_OPEN_OF_ALL} unfinished bulk actions, the limit of all actors "
            "together; nothing was ordered: wait until some have ended"
        )


async def _match(session: Session, table: HotTable, verb: Verb, wanted: Selection) -> audit.Match:
    if table == "events" and verb in ("cancel", "prioritize"):
        raise UsageError(f"{verb} is only for commands: an event is a fact")
    return await match_of(session, table, statuses_of(verb), await in_full(session, wanted))


async def _count(
    session: Session, table: HotTable, match: audit.Match, last: int | None = None
) -> _Counted:
    last = await store.last_id(session, table) if last is None else last
    found: list[int] = []
    above = 0
    for _ in range(LOOKED_AT // LOOK):
        room = COUNTED_TO - len(found)
        next_ = await store.ahead(session, table, match, above, last, room, LOOK)
        found += next_.ids
        above = next_.to
        if next_.end or len(found) >= COUNTED_TO:
            return _Counted(len(found), next_.end, tuple(found), last)
    return _Counted(len(found), whole=False, ids=tuple(found), last=last)


async def _row(session: Session, id: int, tenants: Collection[str] | None) -> Row:
    return checked(await store.one(session, id), id, tenants)


def checked(row: Row | None, id: int, tenants: Collection[str] | None) -> Row:
    """Raises NotFound without a row, or if it covers rows of other tenants too."""
    of = None if row is None else row["tenants"]
    if row is None or (tenants is not None and (of is None or not set(of) <= set(tenants))):
        raise NotFound(f"there is no bulk action {id}: `inboxd actions list` shows them")
    return row
