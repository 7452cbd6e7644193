"""Whether the database commits: only then may a row be at fault whose write takes too long."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from inboxd.store import receipts
from inboxd.store.pools import Pool, borrow

# Commits a tiny change, or raises if that takes too long.
Commit: TypeAlias = Callable[[], Awaitable[None]]


async def commit_nothing(pool: Pool, within: float) -> None:
    """Commit a tiny transaction within some seconds. Raises the database's error."""
    async with borrow(pool, within) as session:
        with anyio.fail_after(within):
            await receipts.commit(session)


async def commits(commit: Commit | None) -> bool:
    """Whether the database accepts writes; otherwise a late write means an outage."""
    try:
        if commit is not None:
            await commit()
    except Exception:  # noqa: BLE001 - any error is the database's, not a row's
        return False
    return True
