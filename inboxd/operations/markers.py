"""What happened meanwhile: what charts mark, so that a cause stands beside its effect.

Promises that a reading is bounded, whatever span it is of. Known limit: beyond `MOST` of a kind,
the oldest are left out.
*See:* `store/markers.py`, after it.
"""

from datetime import timedelta
from typing import Final

from inboxd.store import finding, markers, statistics
from inboxd.store.markers import Marker
from inboxd.store.session import Session

# Of a chart; and what is looked at for them.
MOST: Final = 50
_LOOKED: Final = 500


async def happened(session: Session, back: timedelta) -> list[Marker]:
    """What happened from so long ago until now, the newest first, `MOST` of a kind at most."""
    now = await statistics.database_time(session.connection, session.sql)
    async with session.reading():
        await finding.plan_looks(session, walk=True)
        return await markers.listed(
            session, now - back, now + timedelta(seconds=1), look=_LOOKED, limit=MOST
        )
