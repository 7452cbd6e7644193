"""What charts mark: acts of operators, breakers, releases, read as one list.

Promises that a look reads as many lines as it was told, however much happened. Known limits: a
worker's row is kept for a week, a breaker's change for two; older workers name no plugins.
*See:* `operations/markers.py`, before it.
"""

from datetime import datetime
from typing import Literal, TypedDict, cast

from inboxd.store.session import Session


class Marker(TypedDict):
    """One thing that happened: see `list_markers.sql`. entry: its line of the audit."""

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
    """The newest of a span, each kind at most so often."""
    found = await session.fetch("list_markers", since, until, look, limit)
    return cast("list[Marker]", [dict(row) for row in found])
