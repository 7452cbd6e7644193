"""Decides from which lines of sequential topics this worker claims events.

Other workers' events are left to them. Known limit: only surveys renew the unhandled types.
"""

from collections.abc import Iterable

from inboxd.engine.parts import Parts
from inboxd.events.page_order import serves
from inboxd.model.lane import Key
from inboxd.store import workers
from inboxd.store.session import Session


class ServedLines:
    def __init__(self, parts: Parts, relay: str | None = None) -> None:
        """relay: serve only the topic of this relay, instead of the topics that plugins handle."""
        # The mode of its topics, by `lines.survey`.
        self.mode = "sequential" if relay is None else "relay"
        self._parts = parts
        self._relay = relay
        named = (topic for topic, _ in parts.registry.in_topics)
        self._topics = frozenset(filter(self._is_ours, named))
        # By topic and type that this worker does not handle: whether no other worker does.
        self._unhandled: dict[tuple[str, str], bool] = {}

    def forget(self) -> None:
        self._unhandled.clear()

    async def ours(
        self, session: Session, pairs: Iterable[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """A handler without a topic lines up unhandled arrivals: else they delay their bucket."""
        open_ = {pair for pair in pairs if self._is_open(pair[0])}
        ours = {pair for pair in open_ if self._takes(*pair)}
        if self._relay is None and self._parts.registry.anywhere:
            foreign = open_ - ours
            if asked := foreign - self._unhandled.keys():
                found = await workers.unhandled(session, asked)
                self._unhandled |= {pair: pair in found for pair in asked}
            ours |= {pair for pair in foreign if self._unhandled.get(pair)}
        return ours

    def _is_open(self, topic: str) -> bool:
        """Arrivals of a topic that is `batch` now go into chunks, whatever mode they came in."""
        return self._is_ours(topic) and self._parts.controls.allow("topic", topic, "")

    def _is_ours(self, topic: str) -> bool:
        """Whether this object serves the topic: not if chunks or another relay do."""
        registry = self._parts.registry
        if self._relay is not None:
            return topic == self._relay
        elsewhere = topic in registry.chunks or topic in registry.relays
        return not elsewhere and registry.takes(topic)

    def _takes(self, topic: str, type_: str) -> bool:
        """Whether this worker has a handler for such arrivals; without a topic it takes any."""
        return topic in self._topics or bool(self._parts.registry.handlers_of(topic, type_))

    def serves(self, lane: Key) -> bool:
        topic, type_ = str(lane[0]), str(lane[1])
        return self._is_ours(topic) and serves(self._parts, topic, type_)
