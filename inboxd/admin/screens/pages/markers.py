"""Markers in charts: acts of operators, breakers and releases, each at its time.

Visitors of certain tenants see none, since these concern all tenants. All others share a reading.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from inboxd.admin.screens.screen import PageVisit
from inboxd.operations.markers import happened
from inboxd.store.markers import Marker

_FRESH_SECONDS: Final = 10.0
# How far back markers are read: as far as the first of these that is as long as the chart.
_BACK: Final = (timedelta(hours=26), timedelta(days=8), timedelta(days=92))


@dataclass(frozen=True, slots=True)
class PlacedMarker:
    """place: from 0, its first step, to 1, its last."""

    place: float
    told: Marker


async def markers_of(visit: PageVisit, steps: Sequence[datetime]) -> list[PlacedMarker]:
    """The oldest first; none, if they could not be read."""
    if visit.visitor.tenants is not None:
        return []
    covered = steps[-1] - steps[0] + 2 * (steps[1] - steps[0])
    back = next((each for each in _BACK if each >= covered), _BACK[-1])
    found = await visit.shared.get(
        visit.session, ("markers", back), _FRESH_SECONDS, partial(happened, visit.session, back)
    )
    return placed(found or [], steps)


def placed(markers: Sequence[Marker], steps: Sequence[datetime]) -> list[PlacedMarker]:
    """A chart draws the values of a step at the step's beginning."""
    first, last, step = steps[0], steps[-1], steps[1] - steps[0]
    return [
        PlacedMarker(min((each["at"] - first) / (last - first), 1.0), each)
        for each in reversed(markers)
        if first <= each["at"] < last + step
    ]
