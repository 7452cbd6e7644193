"""Suspects for operators: commands that ran on a worker when it died, known by group (ADR 20)."""

from typing import Any
from uuid import UUID

from inboxd.store.session import Session


async def count(session: Session, most: int) -> dict[str, Any]:
    row = await session.fetchrow("count_suspects", most)
    return {} if row is None else dict(row)


async def others(session: Session, group: UUID, id: int) -> int:
    return int(await session.fetchval("group_of_suspect", group, id))
