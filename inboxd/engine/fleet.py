"""The other workers, as the last heartbeat found them.

*See:* `lease`, which writes it; `wakeup` and `versions`, which ask it.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Fleet:
    """What the last heartbeat said of the others."""

    peers: int = 0
    uniform: bool = True

    @property
    def differs(self) -> bool:
        """Whether another worker can do what this one cannot, or the other way round."""
        return self.peers > 0 and not self.uniform
