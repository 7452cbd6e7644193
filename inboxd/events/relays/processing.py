"""The relays of this worker, beside the pages of its other events.

Owns nothing but their number: each relay goes its own way, so that a broker that is away holds up
no other. *See:* `events/processing.py`, before it; `relay`, after it.
"""

from collections.abc import Callable

from anyio.abc import TaskGroup

from inboxd.engine.parts import Parts
from inboxd.engine.processor import Survey, soonest
from inboxd.events.horizon import HorizonReader
from inboxd.events.relays.relay import RelayRunner
from inboxd.events.settling import EventSettling
from inboxd.events.sources.source import LineLook
from inboxd.store.connections import Connection


class RelayProcessing:
    """What this worker publishes."""

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
        """Events that are leased and not settled yet."""
        return sum(relay.in_flight for relay in self._relays)

    @property
    def is_busy(self) -> bool:
        """Whether anything is leased, or looked for."""
        return any(relay.is_busy for relay in self._relays)

    @property
    def again(self) -> float | None:
        """Seconds after which something is to be tried again."""
        return soonest(relay.again for relay in self._relays)

    def forget(self) -> None:
        """The connection was lost."""
        for relay in self._relays:
            relay.forget()

    async def survey(self, connection: Connection, looked: LineLook) -> Survey:
        """Take over what a look at all lines has seen."""
        seen = [await relay.survey(connection, looked) for relay in self._relays]
        return Survey.of([*seen, Survey(due=False, next=self.again)])

    def start(self) -> int:
        """Begin pages, as many as may be; how many were begun."""
        return sum(relay.start() for relay in self._relays)

    def suspend(self) -> None:
        """The worker's lease could not be renewed in time."""
        for relay in self._relays:
            relay.suspend()

    def resume(self) -> None:
        """It was renewed."""
        for relay in self._relays:
            relay.resume()

    def stop(self) -> None:
        """Begin no more."""
        for relay in self._relays:
            relay.stop()

    async def finish(self) -> None:
        """Begin no more, and wait for the pages that go on."""
        self.stop()
        for relay in self._relays:
            await relay.finish()

    async def close(self) -> None:
        """Close what connections are left."""
        for relay in self._relays:
            await relay.close()
