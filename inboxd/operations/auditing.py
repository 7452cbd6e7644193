"""What operators did, read back.

Promises: every action of this package is one line, written in the transaction that did it.
Known limit: what is done by plain SQL is not seen.
"""

from datetime import datetime
from typing import Any

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

    actor and target: a part of it. below: only lines before this one, for the next page.
    """
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
