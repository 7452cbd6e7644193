"""Markers of charts: acts of operators, changes of breakers (two weeks), releases (one week)."""

from datetime import datetime
from typing import Literal, TypedDict, cast

from inboxd.store.session import Session


class Marker(TypedDict):
    at: datetime
    kind: Literal["act", "breaker", "release"]
    entry: int | None
    what: str
    subject: str
    who: str | None
    reason: str | None
    rows: int | None


async def listed(
    session: Session, since: datetime, until: datetime, *, look: int, limit: int
) -> list[Marker]:
    found = await session.fetch("list_markers", since, until, look, limit)
    return cast("list[Marker]", [dict(row) for row in found])
