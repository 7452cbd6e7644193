"""The limits of topics for pages: maximum rows, and maximum pages at a time.

Owns `page_rows` and `total_concurrency` of topics. If the topic that is due first has `page_rows`,
the page has only events of that topic. A total concurrency of N means N slots, advisory locks that
a page holds until its transaction ends. Promises that topics without either limit cost nothing.
Known limit: a page holds a slot even if it then finds no row of the topic.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from inboxd.engine.parts import Parts
from inboxd.store import topics
from inboxd.store.connections import Connection

# Seconds until the next try for a taken slot: its release sends no wake-up.
_RETRY_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class TopicAllowance:
    """The topics of a page, and its maximum number of rows."""

    topics: frozenset[str]
    most: int


class TopicLimits:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        declared = parts.registry.topics.values()
        self._rows = {topic.name: topic.page_rows for topic in declared if topic.page_rows}
        self._slots = {
            topic.name: topic.total_concurrency for topic in declared if topic.total_concurrency
        }
        # Seconds until a slot may be free; None: no slot was refused.
        self.again: float | None = None
        # Topics for which the last page got no slot.
        self.refused: frozenset[str] = frozenset()

    def are_limited(self, topic: str) -> bool:
        """Whether a page needs a slot of the topic."""
        return topic in self._slots

    async def allow(
        self, connection: Connection, wanted: Iterable[str], most: int
    ) -> TopicAllowance:
        """The limits of a page; wanted: topics in the order of their due times."""
        found = list(dict.fromkeys(wanted))
        self.again, self.refused = None, frozenset()
        limited = [topic for topic in found if topic in self._slots]
        if limited:
            slots = [self._slots[topic] for topic in limited]
            had = await topics.try_slots(connection, self._parts.sql, limited, slots)
            found = [topic for topic in found if topic in had or topic not in self._slots]
            self.refused = frozenset(limited).difference(had)
            self.again = _RETRY_SECONDS if self.refused else None
        if found and found[0] in self._rows:
            return TopicAllowance(frozenset(found[:1]), min(most, self._rows[found[0]]))
        return TopicAllowance(frozenset(topic for topic in found if topic not in self._rows), most)
