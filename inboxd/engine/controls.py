"""What is paused, as this worker knows it.

Owns the current controls, and the loop that keeps them current: they are read when a change is
notified, and twice a second, so that all workers obey within a second. Promises that nothing is
claimed before they were read once, and that who asked for it is called at each change. Known limit:
while the database is away they are what they were.
"""

from collections.abc import Callable

import anyio

from inboxd.model.outcome import explain
from inboxd.store import controls as store
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_EVERY = 0.5


class Controls:
    """The types, topics and queues that are left alone now."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Nothing is paused until `read` says so; `on_change` is called when that changes."""
        self.paused: frozenset[tuple[str, str]] = frozenset()
        # Grows with each change, for who must look whether there was one.
        self.version = 0
        self._on_change = on_change
        self._notified = anyio.Event()
        self._reads = True

    def allow(self, kind: str, lane: str, type_: str) -> bool:
        """Whether a lane may be claimed; `kind` is what it is a lane of: topic or queue."""
        paused = self.paused
        return not paused or not ((kind, lane) in paused or ("type", type_) in paused)

    def named(self, kind: str) -> list[str]:
        """The names of this kind that are paused."""
        return [name for paused, name in self.paused if paused == kind]

    def on_notify(self) -> None:
        """A change was notified: read at once."""
        self._notified.set()

    async def read(self, pool: Pool, sql: Statements) -> None:
        """Take over what the table says."""
        async with borrow(pool) as connection:
            rows = await store.read(connection, sql)
        paused = frozenset((row["kind"], row["name"]) for row in rows)
        if paused != self.paused:
            _log.info(
                "controls changed",
                paused=_listed(paused - self.paused),
                resumed=_listed(self.paused - paused),
            )
            self.paused = paused
            self.version += 1
            self._on_change()

    async def keep(self, pool: Pool, sql: Statements) -> None:
        """Stay current until cancelled."""
        while True:
            with anyio.move_on_after(_EVERY):
                await self._notified.wait()
            self._notified = anyio.Event()
            try:
                await self.read(pool, sql)
                self._reads = True
            except Exception as error:  # noqa: BLE001 - the next turn must come
                if self._reads:
                    _log.warning("controls cannot be read", reason=explain(error).error)
                self._reads = False


def _listed(names: frozenset[tuple[str, str]]) -> list[str]:
    return [f"{kind} {name}" for kind, name in sorted(names)]
