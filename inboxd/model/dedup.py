"""Windows of dedup keys: how long they are kept.

Known limit: an event whose key was forgotten is new: windows must exceed late repeats (R1.15).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Windows:
    """The longer window counts: an old key costs space, a lost key repeats an effect."""

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
