"""The actions of the screens, a module for each subject; `ACTIONS` has all of them."""

from typing import Final

from inboxd.admin.screens.actions import (
    batches,
    breakers,
    bulk,
    edit,
    endpoints,
    erase,
    failures,
    lanes,
    order_controls,
    payload,
    produce,
    receipts,
    rows,
    schedules,
    spools,
    streams,
)
from inboxd.admin.screens.actions.contract import ScreenAction

ACTIONS: Final[tuple[ScreenAction, ...]] = (
    *rows.ACTIONS,
    *bulk.ACTIONS,
    *order_controls.ACTIONS,
    *batches.ACTIONS,
    *failures.ACTIONS,
    *lanes.ACTIONS,
    *streams.ACTIONS,
    *breakers.ACTIONS,
    *endpoints.ACTIONS,
    *schedules.ACTIONS,
    *payload.ACTIONS,
    *edit.ACTIONS,
    *produce.ACTIONS,
    *spools.ACTIONS,
    *receipts.ACTIONS,
    *erase.ACTIONS,
)
