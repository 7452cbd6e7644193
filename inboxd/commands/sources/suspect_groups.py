"""Groups of suspects: commands that ran together on a worker when it died (ADR 20).

Owns the order in which groups are tried, and for how long one is watched. Pure. *See:* `suspects`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from inboxd.store.commands import Suspected

# Seconds that a group runs before others may run beside it, doubled for each death: at most 16
# minutes, since the worker starts nothing else meanwhile.
_WATCH_SECONDS = 15.0
_MOST_DOUBLINGS = 6


@dataclass(slots=True)
class SuspectGroup:
    """The due commands of a group that this worker handles."""

    id: UUID
    parts: list[Suspected] = field(default_factory=list)

    @property
    def alone(self) -> bool:
        """Whether it is a single command that is to run alone."""
        return any(part.alone for part in self.parts)

    @property
    def since(self) -> float:
        """How long it has waited, in seconds."""
        return max(part.since for part in self.parts)


def grouped(parts: Iterable[Suspected]) -> list[SuspectGroup]:
    """Groups that have something due; those that run alone come last."""
    groups: dict[UUID, SuspectGroup] = {}
    for part in parts:
        if part.oldest is not None:
            groups.setdefault(part.group, SuspectGroup(part.group)).parts.append(part)
    return sorted(groups.values(), key=lambda group: group.alone)


def time_of(crashes: int) -> float:
    """How long a group with this many deaths is watched, in seconds."""
    return float(_WATCH_SECONDS * 2 ** min(crashes, _MOST_DOUBLINGS))
