"""Suspects for operators: commands that ran on a worker when it died (ADR 20).

Owns the reading statements. Promises that counts stop at a limit. Known limit: commands that ran
together are known only by their group, which changes with each death.
"""

from typing import Any
from uuid import UUID

from inboxd.store.session import Session


async def count(session: Session, most: int) -> dict[str, Any]:
    """The numbers of suspects by state, and of groups: see `count_suspects.sql`."""
    row = await session.fetchrow("count_suspects", most)
    return {} if row is None else dict(row)


async def others(session: Session, group: UUID, id: int) -> int:
    """The number of other commands in its group."""
    return int(await session.fetchval("group_of_suspect", group, id))
