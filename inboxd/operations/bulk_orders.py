"""Bulk actions: what is to be done to all rows that match, written down for the workers to do.

Owns what is ordered. Promises: the rows meant are those that match and were there when it was
ordered. Each order is in the audit; the rows that are done are counted in its line.
Known limits: rows are counted up to `COUNTED_TO`, and up to `LOOKED_AT` are looked at for that. A
batch that is opened inside another one later is not met.
*See:* `operations/bulk_runs.py`, by which workers do it; `operations/order_controls.py`, by which
it is held, let go on and ended.
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
from inboxd.operations.rows import Action, Move, deed_for
from inboxd.store import bulk_actions as store
from inboxd.store import operations as audit
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

Verb = Action | Move

# Rows that have to succeed before the others are replayed.
CANARY: Final = 10
# Orders that have not ended, at once: of one actor, and of all.
MOST_OPEN: Final = 20
MOST_OPEN_OF_ALL: Final = 100
LEAST_RATE: Final = 0.001
MOST_RATE: Final = 10_000.0
LONGEST_DELAY: Final = timedelta(days=7)
COUNTED_TO: Final = 100_000
LOOKED_AT: Final = 200_000
# Rows that one statement looks at.
LOOK: Final = 20_000
OPEN: Final = ("scheduled", "canary", "running", "paused")
_SHOWN: Final = (
    *("id", "kind", "verb", "actor", "reason", "status", "note", "starts_at", "rate", "canary"),
    *("counted", "whole", "done", "left_out", "created_at", "began_at", "ended_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerms:
    """How a bulk action is done. Raises UsageError for what is out of bounds.

    to: the time or the priority that rows are given. delay: until it starts. rate: rows a second at
    most. canary: a few rows first, the others only if all of those succeed.
    """

    to: datetime | int | None = None
    delay: timedelta = timedelta(seconds=5)
    rate: float | None = None
    canary: bool = False

    def __post_init__(self) -> None:
        """What would never end, or never begin, is refused."""
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
    """What somebody confirms: how many rows were counted, up to which id; by which form."""

    count: int
    last: int
    request: UUID | None = None


@dataclass(frozen=True, slots=True)
class _Counted:
    """The rows that match: how many, whether that is all, the first of them, and where they end."""

    count: int
    whole: bool
    ids: tuple[int, ...]
    last: int


async def preview_all(
    session: Session, table: HotTable, verb: Verb, wanted: Selection, *, rows: int = 10
) -> ActionPreview:
    """What an order would be done to now: how many rows, or at least that, and the first of them.

    Raises as `order` does, except where nothing matches.
    """
    match = await _match(session, table, verb, wanted)
    found = await _count(session, table, match)
    sample = await audit.sample(session, table, found.ids[:rows])
    return ActionPreview(found.count, tuple(map(dict, sample)), whole=found.whole, last=found.last)


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
    """Write down that it is to be done to all that match; returns the order as `documents` has it.

    Raises NotFound where nothing matches, or for a batch or a group that is not there; UsageError
    for what cannot be done so; Conflict when too many orders have not ended, this form has
    ordered one already, or more rows match by now than were shown.
    """
    if terms.canary and verb != "replay":
        raise UsageError(f"there is no canary for {verb}: rows that are replayed can succeed first")
    if (terms.to is None) is (verb in ("reschedule", "prioritize")):
        raise UsageError(f"{verb} needs a time or a priority, and nothing else does")
    wanted = await in_full(session, wanted)
    match = await _match(session, table, verb, wanted)
    found = await _count(session, table, match, shown.last if shown else None)
    if shown and found.count > shown.count:
        raise Conflict(
            f"more rows match by now, {found.count:,}, than the {shown.count:,} that were shown; "
            "nothing was ordered: look again how things are"
        )
    if found.whole and not found.count:
        raise NotFound(f"no row matches that allows it to be {_done(verb)}; nothing was ordered")
    async with session.connection.transaction():
        await _check_room(session, actor)
        deed = deed_for(verb, terms.to)
        target = f"{table} {wanted}".rstrip()
        entry = await audit.record(session, actor, deed.word, target, reason, 0, to=deed.to)
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
                "this was confirmed before, and ordered once; nothing more was ordered: open the "
                "page again if it is to be done once more"
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
    """Orders, the newest first; tenants: only those that meet rows of these alone."""
    return [document(row) for row in await store.listed(session, tenants, below, limit)]


async def one_order(
    session: Session, id: int, *, tenants: Collection[str] | None = None
) -> dict[str, Any]:
    """One order. Raises NotFound."""
    return document(await _row(session, id, tenants))


def statuses_of(verb: Verb) -> tuple[str, ...]:
    """The statuses that allow it."""
    return deed_for(verb, datetime.now().astimezone() if verb == "reschedule" else 0).allowed


def document(row: Row) -> dict[str, Any]:
    """An order as JSON has it. share: of its way, from 0 to 1; undone: aborted before it began.

    selection: None, where the session's role may not see it, nor the note.
    """
    return {
        **{name: row[name] for name in _SHOWN},
        "to": row["priority"] if row["run_at"] is None else row["run_at"],
        "selection": None if row["selection"] is None else _selection(row),
        "share": _share(row),
        "undone": row["status"] == "aborted" and row["began_at"] is None,
    }


def told_order(shown: Mapping[str, Any]) -> str:
    """How far an order has come, as a sentence."""
    rows = plural(shown["done"], shown["kind"])
    if shown["undone"]:
        return "Undone: it was aborted before it began, and nothing was changed."
    at_least = "" if shown["whole"] else "at least "
    of = f"{rows} of {at_least}{shown['counted']:,} {_done(shown['verb'])}"
    left = f", {shown['left_out']:,} left as they are" if shown["left_out"] else ""
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
    """Let nobody else order until the transaction ends. Raises Conflict for too many orders."""
    own, all_ = await store.count_open(session, actor)
    if own >= MOST_OPEN:
        raise Conflict(
            f"{MOST_OPEN} bulk actions of {actor} have not ended, which is the most that one actor "
            "may have; nothing was ordered: `inboxd actions list` has them"
        )
    if all_ >= MOST_OPEN_OF_ALL:
        raise Conflict(
            f"{MOST_OPEN_OF_ALL} bulk actions of all actors have not ended, which is the most "
            "there may be; nothing was ordered: wait until some have"
        )


async def _match(session: Session, table: HotTable, verb: Verb, wanted: Selection) -> audit.Match:
    if table == "events" and verb in ("cancel", "prioritize"):
        raise UsageError(f"{verb} is for commands: an event is a fact")
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
    """The row. Raises NotFound where there is none, or it meets rows of other tenants too."""
    of = None if row is None else row["tenants"]
    if row is None or (tenants is not None and (of is None or not set(of) <= set(tenants))):
        raise NotFound(f"there is no bulk action {id}: `inboxd actions list` has them")
    return row
