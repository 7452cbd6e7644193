"""The other workers, as the last heartbeat found them.

*See:* `lease`, which writes it; `wakeup` and `versions`, which ask it.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Fleet:
    """The other workers at the last heartbeat. uniform: their declarations equal this worker's."""

    peers: int = 0
    uniform: bool = True

    @property
    def differs(self) -> bool:
        """Whether a living peer declares something else than this worker."""
        return self.peers > 0 and not self.uniform
