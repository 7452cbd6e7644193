"""What operators did, read back.

Promises: every action of this package is one line, written in the transaction that did it.
Known limit: what is done by plain SQL is not seen.
"""

from typing import Any, get_args

from inboxd.errors import UsageError
from inboxd.model.spelling import did_you_mean
from inboxd.store import operations as store
from inboxd.store.session import Session


async def sent_again(
    session: Session, target: str, url: str, *, actor: str, reason: str | None = None
) -> None:
    """Note that a stored request goes to an address, which is noted without its query."""
    async with session.connection.transaction():
        where = url.partition("?")[0]
        await store.record(session, actor, "send", target, reason, 1, to=where)


async def actions(session: Session, wanted: store.AuditFilter) -> list[dict[str, Any]]:
    """The entries of the audit that match. Raises UsageError for an action that there is not."""
    if wanted.action is not None:
        _check(wanted.action)
    return [dict(row) for row in await store.audit(session, wanted)]


def _check(action: str) -> None:
    known = get_args(store.Audited)
    if (word := action.partition(" ")[0]) not in known:
        hint = did_you_mean(word, known) or f"; valid are {', '.join(sorted(known))}"
        raise UsageError(f"{action!r} is not a valid action{hint}")
