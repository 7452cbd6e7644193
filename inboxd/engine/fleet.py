"""The other workers, as the last heartbeat found them."""

from dataclasses import dataclass


@dataclass(slots=True)
class Fleet:
    """The other workers at the last heartbeat. uniform: their declarations equal this worker's."""

    peers: int = 0
    uniform: bool = True

    @property
    def differs(self) -> bool:
        return self.peers > 0 and not self.uniform
