"""What operators see of suspects: commands that ran on a worker when it died (ADR 20).

Owns the reading statements. Promises that counts stop at a limit. Known limit: what ran beside one
is told by its group alone, which is another after each death.
"""

from typing import Any
from uuid import UUID

from inboxd.store.session import Session


async def count(session: Session, most: int) -> dict[str, Any]:
    """How many wait, run, and are to run alone, in how many groups: see `count_suspects.sql`."""
    row = await session.fetchrow("count_suspects", most)
    return {} if row is None else dict(row)


async def others(session: Session, group: UUID, id: int) -> int:
    """With how many others of its group one runs."""
    return int(await session.fetchval("group_of_suspect", group, id))
