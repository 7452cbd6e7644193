"""How long dedup keys are kept.

Owns the windows. Promises: where two windows apply, the longer one counts. Known limit: a key that
was forgotten is a first again, so a window must exceed the longest time after which a producer
sends again (R1.15).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Windows:
    """How long keys are kept: by topic, by source, and where neither is named.

    Where both are named, the longer one counts: keeping a key too long costs room, forgetting it
    too early an effect that happens twice.
    """

    default: timedelta
    sources: Mapping[str, timedelta] = field(default_factory=dict)
    topics: Mapping[str, timedelta] = field(default_factory=dict)

    def of(self, topic: str, source: str) -> timedelta:
        """The window of a topic and a source."""
        named = [
            window
            for window in (self.topics.get(topic), self.sources.get(source))
            if window is not None
        ]
        return max(named, default=self.default)
