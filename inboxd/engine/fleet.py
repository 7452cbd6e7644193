"""The other workers, as the last heartbeat found them.

*See:* `lease`, which writes it; `wakeup` and `versions`, which ask it.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Fleet:
    """The other workers at the last heartbeat. uniform: all of them are like this one."""

    peers: int = 0
    uniform: bool = True

    @property
    def differs(self) -> bool:
        """Whether another worker can do what this one cannot, or the reverse."""
        return self.peers > 0 and not self.uniform
