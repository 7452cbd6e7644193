"""The lease of the worker that stops claiming, so that it can run a suspect alone.

Promises that at most one worker empties itself, and that a lease whose answer was lost is given up.
*See:* `suspects`, `inboxd.store.leases`.
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
        self._held = True  # before the statement: its answer may be lost
        async with borrow(self._parts.pool) as connection:
            self._held = await leases.hold(connection, self._parts.sql, _NAME, self._parts.me.id)
        return self._held

    async def free(self) -> None:
        """Give up the lease, if this worker may hold it."""
        if self._held:
            async with borrow(self._parts.pool) as connection:
                await leases.free(connection, self._parts.sql, _NAME, self._parts.me.id)
            self._held = False
