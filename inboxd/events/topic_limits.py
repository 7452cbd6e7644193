"""The limits of topics for pages: maximum rows, and maximum pages at a time.

If the topic that is due first has `page_rows`, the page has only its events. A total concurrency of
N means N slots: advisory locks that a page holds until its transaction ends, also without rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.engine.parts import Parts
from inboxd.store import topics
from inboxd.store.session import Session

# Seconds until the next try for a taken slot: its release sends no wake-up.
_RETRY_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class TopicAllowance:
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

    async def allow(
        self, session: Session, wanted: Sequence[str], most: int, reach: int | None = None
    ) -> TopicAllowance:
        """wanted: topics in the order of due times. reach: how many the page uses; None: all."""
        had: set[str] = set()
        self.again = None
        while True:
            together = self._together(wanted)
            near = dict.fromkeys(together[:reach])
            asked = [topic for topic in near if topic in self._slots and topic not in had]
            if not asked:
                break
            # If the first topic refuses, the next one may take the page for itself.
            alone = not had and any(topic in self._rows for topic in wanted)
            asked = asked[:1] if alone else asked
            slots = [self._slots[topic] for topic in asked]
            had |= await topics.try_slots(session, asked, slots)
            if refused := set(asked) - had:
                self.again = _RETRY_SECONDS
                wanted = [topic for topic in wanted if topic not in refused]
            elif not alone:
                break
        found = [topic for topic in together if topic in had or topic not in self._slots]
        most = min([most, *(self._rows[topic] for topic in found[:1] if topic in self._rows)])
        return TopicAllowance(frozenset(found), most)

    def _together(self, wanted: Sequence[str]) -> Sequence[str]:
        """The topics that can share a page with the first one."""
        if wanted and wanted[0] in self._rows:
            return [topic for topic in wanted if topic == wanted[0]]
        return [topic for topic in wanted if topic not in self._rows]
