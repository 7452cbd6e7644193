"""The relays of this worker: each runs on its own, so that an unreachable broker delays no other.

*See:* `events/processing.py`, before it; `relay`, after it.
"""

from collections.abc import Callable

from anyio.abc import TaskGroup

from inboxd.engine.parts import Parts
from inboxd.engine.processor import Survey, soonest
from inboxd.events.horizon import HorizonReader
from inboxd.events.relays.relay import RelayRunner
from inboxd.events.settling import EventSettling
from inboxd.events.sources.source import LineLook
from inboxd.store.session import Session


class RelayProcessing:
    def __init__(
        self,
        parts: Parts,
        tasks: TaskGroup,
        reader: HorizonReader,
        settling: EventSettling,
        wake: Callable[[], None],
        holds_lease: Callable[[], bool],
    ) -> None:
        self._relays = [
            RelayRunner(parts, tasks, reader, settling, name, wake, holds_lease)
            for name in sorted(parts.registry.relays)
        ]

    @property
    def in_flight(self) -> int:
        return sum(relay.in_flight for relay in self._relays)

    @property
    def is_busy(self) -> bool:
        return any(relay.is_busy for relay in self._relays)

    @property
    def again(self) -> float | None:
        return soonest(relay.again for relay in self._relays)

    def forget(self) -> None:
        for relay in self._relays:
            relay.forget()

    async def survey(self, session: Session, looked: LineLook) -> Survey:
        seen = [await relay.survey(session, looked) for relay in self._relays]
        return Survey.of([*seen, Survey(due=False, next=self.again)])

    def start(self) -> int:
        return sum(relay.start() for relay in self._relays)

    def suspend(self) -> None:
        """Publish nothing: the worker's lease was not renewed in time."""
        for relay in self._relays:
            relay.suspend()

    def resume(self) -> None:
        for relay in self._relays:
            relay.resume()

    def stop(self) -> None:
        for relay in self._relays:
            relay.stop()

    async def finish(self) -> None:
        """Begin no more pages, and wait for those that run."""
        self.stop()
        for relay in self._relays:
            await relay.finish()

    async def close(self) -> None:
        for relay in self._relays:
            await relay.close()
