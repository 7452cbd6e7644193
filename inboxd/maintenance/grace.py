"""Since when nobody has been there for a lane, a line or a topic, and whether that was long enough.

Owns the clock of `worker.unserved_grace`, for commands that nobody serves and events that nobody
handles. Promises that a rolling deploy loses nothing. Known limit: the grace counts from when this
worker first saw the lane, so a restart of all workers starts it anew.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from inboxd.model.lane import Key

# Given "topic" or "queue", the lane's name, and the type.
IsOpen = Callable[[str, str, str], bool]


@dataclass(slots=True)
class Grace:
    """Since when each lane has been seen without anybody for it; `seconds` it may be so."""

    seconds: float
    _since: dict[Key, float] = field(default_factory=dict)

    def look(self, abandoned: Collection[Key], now: float) -> list[Key]:
        """The lanes that have been without anybody for the whole grace."""
        self._since = {key: self._since.get(key, now) for key in abandoned}
        return [key for key, since in self._since.items() if now - since >= self.seconds]
