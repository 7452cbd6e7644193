"""Which lines of sequential topics are this worker's to take from.

Owns the memory of what nobody handles. Promises that what another worker handles is left to it, and
that what nobody does holds up no other key of its bucket. Known limit: what was found stands until
the next survey.
"""

from collections.abc import Iterable

from inboxd.engine.parts import Parts
from inboxd.events.page_order import serves
from inboxd.model.lane import Key
from inboxd.store import workers
from inboxd.store.connections import Connection


class ServedLines:
    """The sequential topics, and the types in them, that this worker serves."""

    def __init__(self, parts: Parts, relay: str | None = None) -> None:
        """Serve what the plugins serve; or the topic of a relay, and nothing else."""
        # Of its topics, as `lines.survey` has it.
        self.mode = "sequential" if relay is None else "relay"
        self._parts = parts
        self._relay = relay
        named = (topic for topic, _ in parts.registry.in_topics)
        self._topics = frozenset(filter(self._is_ours, named))
        # Of topics and types that are none of ours: whether nobody handles them.
        self._nobodys: dict[tuple[str, str], bool] = {}

    def forget(self) -> None:
        """Ask anew what nobody handles."""
        self._nobodys.clear()

    async def ours(
        self, connection: Connection, pairs: Iterable[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """Those of these topics and types whose arrivals are ours to take, or to line up.

        What nobody handles we line up wherever a handler without a topic may have others to run:
        else it would hold up the other keys of its bucket. What another worker handles is left to
        it.
        """
        open_ = {pair for pair in pairs if self._is_open(pair[0])}
        ours = {pair for pair in open_ if self._takes(*pair)}
        if self._relay is None and self._parts.registry.anywhere:
            foreign = open_ - ours
            if asked := foreign - self._nobodys.keys():
                found = await workers.unhandled(connection, self._parts.sql, asked)
                self._nobodys |= {pair: pair in found for pair in asked}
            ours |= {pair for pair in foreign if self._nobodys.get(pair)}
        return ours

    def _is_open(self, topic: str) -> bool:
        """Whether arrivals of the topic may be taken here, as far as lines go.

        Those of a topic that is `batch` by now go into its chunks, whatever it was when they came.
        """
        return self._is_ours(topic) and self._parts.controls.allow("topic", topic, "")

    def _is_ours(self, topic: str) -> bool:
        """Whether it is processed here: not as chunks, nor by a relay that is not this one."""
        registry = self._parts.registry
        if self._relay is not None:
            return topic == self._relay
        elsewhere = topic in registry.chunks or topic in registry.relays
        return not elsewhere and registry.takes(topic)

    def _takes(self, topic: str, type_: str) -> bool:
        """Whether arrivals are among what our handlers serve: those without a topic serve any."""
        return topic in self._topics or bool(self._parts.registry.handlers_of(topic, type_))

    def serves(self, lane: Key) -> bool:
        """Whether heads of this lane may be run here now."""
        topic, type_ = str(lane[0]), str(lane[1])
        return self._is_ours(topic) and serves(self._parts, topic, type_)
