"""The relays of this worker, beside the pages of its other events.

Each relay runs on its own, so that an unreachable broker delays no other relay. *See:*
`events/processing.py`, before it; `relay`, after it.
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
        """Run the relays of the registry; `wake` ends the processor's sleep."""
        self._relays = [
            RelayRunner(parts, tasks, reader, settling, name, wake, holds_lease)
            for name in sorted(parts.registry.relays)
        ]

    @property
    def in_flight(self) -> int:
        """Number of leased events that are not settled yet."""
        return sum(relay.in_flight for relay in self._relays)

    @property
    def is_busy(self) -> bool:
        """Whether a relay has leases, or looks for work."""
        return any(relay.is_busy for relay in self._relays)

    @property
    def again(self) -> float | None:
        """Seconds until a relay tries again."""
        return soonest(relay.again for relay in self._relays)

    def forget(self) -> None:
        for relay in self._relays:
            relay.forget()

    async def survey(self, session: Session, looked: LineLook) -> Survey:
        """Take over a survey of all lines."""
        seen = [await relay.survey(session, looked) for relay in self._relays]
        return Survey.of([*seen, Survey(due=False, next=self.again)])

    def start(self) -> int:
        """Begin as many pages as allowed; returns their number."""
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
        """Close the connections to brokers that are unused."""
        for relay in self._relays:
            await relay.close()
