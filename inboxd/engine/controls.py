"""Controls of one worker: lanes that are paused, or that need an open breaker.

Queues of disabled endpoints are treated like paused queues. Nothing is claimed before the first
reading. Known limit: while the database is away, the last known controls apply.
"""

from collections.abc import Callable, Iterable

import anyio

from inboxd.engine.breakers import Breakers
from inboxd.store import controls as store
from inboxd.store.outage import OUTAGE
from inboxd.store.pools import Pool, borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_EVERY = 0.5


class Controls:
    def __init__(self, on_change: Callable[[], None], breakers: Breakers) -> None:
        """`on_change` is called at each change, but breakers report their own changes."""
        self.paused: frozenset[tuple[str, str]] = frozenset()
        self.breakers = breakers
        # Queues of disabled endpoints: treated like paused queues.
        self._left: frozenset[str] = frozenset()
        self._changes = 0
        self._on_change = on_change
        self._notified = anyio.Event()
        self._reads = True

    @property
    def version(self) -> int:
        """Change counter; includes the changes of breakers."""
        return self._changes + self.breakers.version

    @property
    def are_quiet(self) -> bool:
        return not (self.paused or self._left) and self.breakers.is_quiet

    def allow(self, kind: str, lane: str, type_: str) -> bool:
        if not self.allow_pauses(kind, lane, type_):
            return False
        return not self.breakers.shut or self.breakers.allow(kind, lane, type_)

    def allow_row(self, kind: str, lane: str, type_: str, row_id: int) -> bool:
        """Whether a claimed row may begin; a probed lane admits only a few rows."""
        if not self.allow_pauses(kind, lane, type_):
            return False
        return self.breakers.is_quiet or self.breakers.is_admitted(kind, lane, type_, row_id)

    def allow_pauses(self, kind: str, lane: str, type_: str) -> bool:
        """Whether a lane is neither paused nor the queue of a disabled endpoint."""
        paused, left = self.paused, self._left
        if left and kind == "queue" and lane in left:
            return False
        return not paused or not ((kind, lane) in paused or ("type", type_) in paused)

    def named(self, kind: str) -> list[str]:
        return [name for paused, name in self.paused if paused == kind]

    def leave(self, queues: Iterable[str]) -> None:
        left = frozenset(queues)
        if left != self._left:
            self._left = left
            self._changes += 1
            self._on_change()

    def on_notify(self) -> None:
        self._notified.set()
        self.breakers.on_notify()

    async def read(self, pool: Pool) -> None:
        async with borrow(pool) as session:
            rows = await store.read(session)
        paused = frozenset((row["kind"], row["name"]) for row in rows)
        if paused != self.paused:
            _log.info(
                "controls changed",
                paused=_listed(paused - self.paused),
                resumed=_listed(self.paused - paused),
            )
            self.paused = paused
            self._changes += 1
            self._on_change()

    async def keep(self, pool: Pool) -> None:
        while True:
            with anyio.move_on_after(_EVERY):
                await self._notified.wait()
            self._notified = anyio.Event()
            try:
                await self.read(pool)
                self._reads = True
            except Exception as error:  # noqa: BLE001 - the next turn must come
                if self._reads:
                    OUTAGE.warn(_log.warning, "controls cannot be read", error)
                self._reads = False


def _listed(names: frozenset[tuple[str, str]]) -> list[str]:
    return [f"{kind} {name}" for kind, name in sorted(names)]
