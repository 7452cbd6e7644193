"""What operators did, read back.

Promises: every action of this package is one line, written in the transaction that did it.
Known limit: what is done by plain SQL is not seen.
"""

from datetime import datetime
from typing import Any, get_args

from inboxd.errors import UsageError
from inboxd.model.spelling import did_you_mean
from inboxd.store import operations as store
from inboxd.store.session import Session


async def actions(
    session: Session,
    *,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
    since: datetime | None = None,
    below: int | None = None,
    limit: int = 20,
) -> list[dict[str, Any]]:
    """The lines of the audit that match, the newest first.

    actor and target: a part of it. action: the whole of it, or its first word. below: only lines
    before this one, for the next page. Raises UsageError for an action that there is not.
    """
    if action is not None:
        _check(action)
    found = await store.audit(
        session,
        actor=actor,
        action=action,
        target=target,
        since=since,
        below=below,
        limit=limit,
    )
    return [dict(row) for row in found]


def _check(action: str) -> None:
    known = get_args(store.Audited)
    if (word := action.partition(" ")[0]) not in known:
        hint = did_you_mean(word, known) or f"; valid are {', '.join(sorted(known))}"
        raise UsageError(f"{action!r} is not a valid action{hint}")
