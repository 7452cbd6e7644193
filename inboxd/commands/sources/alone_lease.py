"""The lease of the worker that stops claiming, so that it can run a suspect alone.

Promises that one worker at most empties itself, and that a lease whose answer was lost is given up.
*See:* `suspects`, `inboxd.store.leases`.
"""

from inboxd.engine.parts import Parts
from inboxd.store import leases
from inboxd.store.pools import borrow

_NAME = "alone"


class AloneLease:
    """As far as one worker knows."""

    def __init__(self, parts: Parts) -> None:
        """Hold it for the worker of `parts`."""
        self._parts = parts
        # Whether it may be this worker's.
        self._held = False

    async def hold(self) -> bool:
        """Hold it, or hold it on; whether nobody else does."""
        self._held = True  # before it is: the answer may be lost
        async with borrow(self._parts.pool) as connection:
            self._held = await leases.hold(connection, self._parts.sql, _NAME, self._parts.me.id)
        return self._held

    async def free(self) -> None:
        """Give it up, if it may be held."""
        if self._held:
            async with borrow(self._parts.pool) as connection:
                await leases.free(connection, self._parts.sql, _NAME, self._parts.me.id)
            self._held = False
