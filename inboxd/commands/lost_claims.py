"""Gives back commands that this worker holds without knowing it: a claim's answer was lost."""

from time import monotonic

from inboxd.commands.admission import Admission
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine.parts import Parts
from inboxd.store import commands
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Maximum share of the time that searches may take.
_LOOK_SHARE = 1 / 100


class LostClaims:
    def __init__(self, parts: Parts, admission: Admission, outcomes: UnwrittenOutcomes) -> None:
        """Give back commands that are known neither to `admission` nor to `outcomes`."""
        self._parts = parts
        self._admission = admission
        self._outcomes = outcomes
        self._look_at = 0.0

    @property
    def due(self) -> bool:
        return monotonic() >= self._look_at

    def soon(self) -> None:
        """Search before the next page, since the answer to a claim may have been lost."""
        self._look_at = 0.0

    async def give_back(self) -> int:
        known, began = list(self._admission.known | self._outcomes.ids), monotonic()
        async with borrow(self._parts.pool) as session:
            unknown = await commands.release(session, self._parts.me.id, but=known)
        # While an old snapshot is open, a search reads all rows that this worker ever claimed.
        rest = (monotonic() - began) / _LOOK_SHARE
        self._look_at = monotonic() + max(self._parts.settings.worker.lease.total_seconds(), rest)
        if unknown:
            _log.warning("released commands of a claim without an answer", commands=unknown)
        return unknown
