"""Windows of dedup keys: how long they are kept.

Promises: where two windows apply, the longer one counts. Known limit: an event whose key was
forgotten counts as new, so a window must exceed the longest time after which a producer repeats an
event (R1.15).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows by topic and by source, and a default.

    If both have a window, the longer one counts: keeping a key too long costs space, forgetting it
    too early makes an effect happen twice.
    """

    default: timedelta
    sources: Mapping[str, timedelta] = field(default_factory=dict)
    topics: Mapping[str, timedelta] = field(default_factory=dict)

    def of(self, topic: str, source: str) -> timedelta:
        named = [
            window
            for window in (self.topics.get(topic), self.sources.get(source))
            if window is not None
        ]
        return max(named, default=self.default)
