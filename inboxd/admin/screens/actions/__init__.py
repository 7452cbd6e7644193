"""What can be done from the screens, a module for each subject; `ACTIONS` has all of it.

Each is a declaration (`contract.py`), and what it does is an operation of `inboxd.operations`, as
the command line's. *See:* `acting.py`, by which all of them are asked for and done.
"""

from typing import Final

from inboxd.admin.screens.actions import (
    bulk,
    edit,
    erase,
    failures,
    lanes,
    order_controls,
    payload,
    produce,
    rows,
    schedules,
    spools,
    targets,
)
from inboxd.admin.screens.actions.contract import ScreenAction

ACTIONS: Final[tuple[ScreenAction, ...]] = (
    *rows.ACTIONS,
    *bulk.ACTIONS,
    *order_controls.ACTIONS,
    *failures.ACTIONS,
    *lanes.ACTIONS,
    *targets.ACTIONS,
    *schedules.ACTIONS,
    *payload.ACTIONS,
    *edit.ACTIONS,
    *produce.ACTIONS,
    *spools.ACTIONS,
    *erase.ACTIONS,
)
