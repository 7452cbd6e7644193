"""What operators did, read back.

Promises: every action of this package is one line, written in the transaction that did it; a look
for some reads no more of them than it was told, however rare they are.
Known limit: what is done by plain SQL is not seen.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from inboxd.errors import UsageError
from inboxd.model.spelling import did_you_mean
from inboxd.store import finding
from inboxd.store import operations as store
from inboxd.store.session import Session

# Entries that one look goes through, some 800 blocks of the database.
LOOKED_AT: Final = 50_000
_ENTRY = ("id", "at", "actor", "action", "target", "reason", "count")


@dataclass(frozen=True, slots=True)
class FoundActions:
    """A page of the audit.

    next: below which id the next page begins; None: there is none. looked: entries that were looked
    at; looked_back_to: when the last of them was made; None: to the end, or the page is full.
    """

    rows: list[dict[str, Any]]
    next: int | None
    looked: int
    looked_back_to: datetime | None = None

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"audit": self.rows, "next": self.next}


async def sent_again(
    session: Session, target: str, url: str, *, actor: str, reason: str | None = None
) -> None:
    """Note that a stored request goes to an address.

    Its host alone: whoever reads the audit may not read URLs, whose paths may be secrets.
    """
    async with session.connection.transaction():
        host = urlsplit(url).hostname
        await store.record(session, actor, "send", target, reason, 1, to=host)


async def viewed(session: Session, target: str, *, actor: str) -> None:
    """Note that somebody looks at contents of a row, before they do."""
    async with session.connection.transaction():
        await store.record(session, actor, "view", target, None, 1)


async def actions(session: Session, wanted: store.AuditFilter) -> FoundActions:
    """Entries of the audit that match, as far as one look goes.

    Raises UsageError for an action that there is not.
    """
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


async def all_actions(session: Session, wanted: store.AuditFilter) -> FoundActions:
    """The same by as many looks as it takes to fill the page, or to look at all of them."""
    rows: list[dict[str, Any]] = []
    while True:
        found = await actions(session, replace(wanted, limit=wanted.limit - len(rows)))
        rows += found.rows
        if found.next is None or len(rows) == wanted.limit:
            return replace(found, rows=rows)
        wanted = replace(wanted, below=found.next)


def _check(action: str) -> None:
    """Some have two words; behind it, an entry may say what something was changed to."""
    known: tuple[str, ...] = get_args(store.Audited)
    asked = action.partition(" to ")[0]
    if asked in known or asked in {each.partition(" ")[0] for each in known}:
        return
    hint = did_you_mean(asked, known) or f"; valid are {', '.join(sorted(known))}"
    raise UsageError(f"{action!r} is not a valid action{hint}")
