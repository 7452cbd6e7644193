"""Markers of charts: actions, breakers and releases, so that causes appear beside effects."""

from datetime import timedelta
from typing import Final

from inboxd.store import finding, markers, statistics
from inboxd.store.markers import Marker
from inboxd.store.session import Session

# Markers of each kind in a chart, and rows that are looked at for them.
MOST: Final = 50
_LOOKED: Final = 500


async def happened(session: Session, back: timedelta) -> list[Marker]:
    """Newest first, at most `MOST` of each kind."""
    now = await statistics.database_time(session)
    async with session.reading():
        await finding.plan_looks(session, walk=True)
        return await markers.listed(
            session, now - back, now + timedelta(seconds=1), look=_LOOKED, limit=MOST
        )
