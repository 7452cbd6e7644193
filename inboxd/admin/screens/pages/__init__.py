"""The pages, a module for each subject; `SCREENS` has all of them."""

from typing import Final

from inboxd.admin.screens.pages import (
    audit,
    batches,
    breakers,
    bulk_actions,
    doctor,
    endpoints,
    failures,
    find,
    history,
    lanes,
    overview,
    row,
    rows,
    schedules,
    sources,
    statement,
    story,
    types,
    workers,
)
from inboxd.admin.screens.screen import Screen

SCREENS: Final[tuple[Screen, ...]] = (
    *overview.SCREENS,
    *rows.SCREENS,
    *row.SCREENS,
    *batches.SCREENS,
    *story.SCREENS,
    *find.SCREENS,
    *failures.SCREENS,
    *lanes.SCREENS,
    *types.SCREENS,
    *schedules.SCREENS,
    *breakers.SCREENS,
    *endpoints.SCREENS,
    *sources.SCREENS,
    *workers.SCREENS,
    *history.SCREENS,
    *statement.SCREENS,
    *doctor.SCREENS,
    *bulk_actions.SCREENS,
    *audit.SCREENS,
)
