"""The lease that lets one worker stop claiming, so that it can run a suspect alone.

It is given up even if the answer to its taking was lost.
"""

from inboxd.engine.parts import Parts
from inboxd.store import leases
from inboxd.store.pools import borrow

_NAME = "alone"


class AloneLease:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # Whether this worker may hold it.
        self._held = False

    async def hold(self) -> bool:
        """Take or renew the lease; returns whether this worker has it."""
        self._held = True  # set before the statement, since its answer may be lost
        async with borrow(self._parts.pool) as session:
            self._held = await leases.hold(session, _NAME, self._parts.me.id)
        return self._held

    async def free(self) -> None:
        if self._held:
            async with borrow(self._parts.pool) as session:
                await leases.free(session, _NAME, self._parts.me.id)
            self._held = False
