"""Markers of charts: acts of operators, changes of breakers and releases, as one list.

Promises that a call reads at most the given number of rows, however much happened. Known limits: a
worker's row is kept for a week, a breaker's change for two; older workers record no plugins.
*See:* `operations/markers.py`, before it.
"""

from datetime import datetime
from typing import Literal, TypedDict, cast

from inboxd.store.session import Session


class Marker(TypedDict):
    """One marker: see `list_markers.sql`. entry: its line in the audit."""

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
    """The newest markers of a span, at most `limit` of each kind."""
    found = await session.fetch("list_markers", since, until, look, limit)
    return cast("list[Marker]", [dict(row) for row in found])
