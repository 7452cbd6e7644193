"""What happened while a chart goes: acts of operators, breakers, releases, each at its place.

Promises that visitors of certain tenants see none of them: they tell of all. One reading serves
all charts and all visitors for some seconds.
*See:* `operations/markers.py`; `charts.py`, which draws; `templates/parts.html`, which tells them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from inboxd.admin.screens.screen import PageVisit
from inboxd.operations.markers import happened
from inboxd.store.markers import Marker

# Seconds that a reading counts as new; and how far it goes back: as far as any chart.
_FRESH: Final = 10.0
_BACK: Final = timedelta(hours=26)


@dataclass(frozen=True, slots=True)
class PlacedMarker:
    """One of a chart; place: from 0, its first moment, to 1, its last."""

    place: float
    told: Marker


async def markers_of(visit: PageVisit, steps: Sequence[datetime]) -> list[PlacedMarker]:
    """Those within a chart over these steps, in the order of time; none if they are unknown."""
    if visit.visitor.tenants is not None:
        return []
    found = await visit.shared.get(
        visit.session, "markers", _FRESH, partial(happened, visit.session, _BACK)
    )
    return placed(found or [], steps)


def placed(markers: Sequence[Marker], steps: Sequence[datetime]) -> list[PlacedMarker]:
    """Where they are: a step's values stand at its beginning."""
    first, last, step = steps[0], steps[-1], steps[1] - steps[0]
    return [
        PlacedMarker(min((each["at"] - first) / (last - first), 1.0), each)
        for each in reversed(markers)
        if first <= each["at"] < last + step
    ]
