"""Gives back commands that this worker holds without knowing it: their claim's answer was lost.

Owns when they are looked for. Promises that they are given back within a lease, or later if a look
takes more than a hundredth of a lease.
"""

from time import monotonic

from inboxd.commands.admission import Admission
from inboxd.commands.settler import Settler
from inboxd.engine.parts import Parts
from inboxd.store import commands
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# The share of the time that looks may take.
_LOOK_SHARE = 1 / 100


class LostClaims:
    def __init__(self, parts: Parts, admission: Admission, settler: Settler) -> None:
        """Give back commands that neither `admission` nor `settler` knows."""
        self._parts = parts
        self._admission = admission
        self._settler = settler
        self._look_at = 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to look."""
        return monotonic() >= self._look_at

    def soon(self) -> None:
        """A claim may have been lost just now: look before the next page."""
        self._look_at = 0.0

    async def give_back(self) -> int:
        """Give back commands that are leased and not known; returns how many."""
        known, began = list(self._admission.known | self._settler.ids), monotonic()
        async with borrow(self._parts.pool) as connection:
            unknown = await commands.release(
                connection, self._parts.sql, self._parts.me.id, but=known
            )
        # While an old snapshot is open, the look reads all rows that this worker ever claimed.
        rest = (monotonic() - began) / _LOOK_SHARE
        self._look_at = monotonic() + max(self._parts.settings.worker.lease.total_seconds(), rest)
        if unknown:
            _log.warning("gave back commands whose claim was not answered", commands=unknown)
        return unknown
