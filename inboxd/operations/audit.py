"""Reads the audit of operators' actions.

Promises: every action of this package has one entry, written in the same transaction; a search
reads a bounded number. Known limit: changes by plain SQL are not recorded.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from inboxd.errors import Conflict, UsageError
from inboxd.model.spelling import did_you_mean
from inboxd.store import finding
from inboxd.store import operations as store
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Entries that one search reads at most: about 800 blocks.
LOOKED_AT: Final = 50_000
# For one row: entries that a search reads at most, and entries that it returns at most.
LOOKED_AT_FOR_A_ROW: Final = 10_000
_ACTS: Final = 50
# The most that the server's clock may step back.
_CLOCK: Final = timedelta(minutes=1)
_ENTRY = ("id", "at", "actor", "action", "target", "reason", "count")


@dataclass(frozen=True, slots=True)
class FoundActions:
    """looked_back_to: time of the last entry read; None: the search ended, or the page is full."""

    rows: list[dict[str, Any]]
    next: int | None
    looked: int
    looked_back_to: datetime | None = None

    def document(self) -> dict[str, Any]:
        return {"audit": self.rows, "next": self.next}


async def sent_again(
    session: Session,
    target: str,
    url: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: int | None = None,
) -> None:
    """Record only the host: the path may be a secret. Raises Conflict for an entry after `seen`."""
    async with session.transaction():
        if seen is not None:
            await refuse_if_done_since(session, "send", target, seen)
        host = urlsplit(url).hostname
        await store.record(session, actor, "send", target, reason, 1, to=host)


async def seen_entry(session: Session, action: store.Audited, target: str) -> int:
    """Return 0 without an entry; `target` is compared with the end of an entry's target."""
    return await store.newest_entry(session, action, target, LOOKED_AT)


async def refuse_if_done_since(
    session: Session, action: store.Audited, target: str, seen: int
) -> None:
    """Raise Conflict if the action was done since; lock its target until the transaction ends."""
    await store.hold_target(session, target)
    if await seen_entry(session, action, target) != seen:
        raise Conflict(
            "another operator has done this meanwhile; nothing was changed: look at it again"
        )


async def viewed(session: Session, target: str, *, actor: str) -> None:
    """Call this before the contents are shown."""
    async with session.transaction():
        await store.record(session, actor, "view", target, None, 1)


async def actions(session: Session, wanted: store.AuditFilter) -> FoundActions:
    """Raises UsageError for an unknown action."""
    if wanted.action is not None:
        _check(wanted.action)
    any_entry = wanted.actor is None and wanted.action is None and wanted.target is None
    look = wanted.limit if any_entry else LOOKED_AT
    async with session.reading():
        await finding.plan_looks(session, walk=True)
        found = await store.audit(session, wanted, look)
    rows = [{name: row[name] for name in _ENTRY} for row in found if row["id"] is not None]
    looked, low, low_at = (found[0][name] for name in ("looked", "low", "low_at"))
    if len(rows) == wanted.limit:
        return FoundActions(rows, rows[-1]["id"], looked)
    if looked < look:
        return FoundActions(rows, None, looked)
    return FoundActions(rows, low, looked, low_at)


@dataclass(frozen=True, slots=True)
class ActsOnRow:
    """Acts, newest first. looked_back_to: None: all entries that may name the row were read."""

    rows: list[dict[str, Any]]
    looked_back_to: datetime | None


async def acts_on(
    session: Session, table: HotTable, id: int, created_at: datetime, ended_at: datetime | None
) -> ActsOnRow:
    """Acts on all rows that match a filter are missing, since they name no row."""
    until = None if ended_at is None else ended_at + _CLOCK
    async with session.reading():
        await finding.plan_looks(session, walk=True)
        found = await store.acts_on_row(
            *(session, table, id, created_at - _CLOCK, until),
            look=LOOKED_AT_FOR_A_ROW,
            limit=_ACTS,
        )
    rows = [dict(row) for row in found if row["id"] is not None]
    whole = found[0]["looked"] < LOOKED_AT_FOR_A_ROW
    return ActsOnRow(rows, None if whole else found[0]["low_at"])


async def all_actions(session: Session, wanted: store.AuditFilter) -> FoundActions:
    """Make as many searches as it takes to fill the page."""
    rows: list[dict[str, Any]] = []
    while True:
        found = await actions(session, replace(wanted, limit=wanted.limit - len(rows)))
        rows += found.rows
        if found.next is None or len(rows) == wanted.limit:
            return replace(found, rows=rows)
        wanted = replace(wanted, below=found.next)


def _check(action: str) -> None:
    """The action may be a first word, or end with " to VALUE". Raises UsageError."""
    known: tuple[str, ...] = get_args(store.Audited)
    asked = action.partition(" to ")[0]
    if asked in known or asked in {each.partition(" ")[0] for each in known}:
        return
    hint = did_you_mean(asked, known) or f"; valid actions: {', '.join(sorted(known))}"
    raise UsageError(f"{action!r} is not a valid action{hint}")
