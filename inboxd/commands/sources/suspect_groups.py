"""Groups of suspects: what was running together on a worker when it died (ADR 20).

Owns in which order groups are tried, and for how long one is watched. Pure. *See:* `suspects`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from inboxd.store.commands import Suspected

# Who has come through for so long, in seconds, doubled for each death, may have others beside it:
# 16 minutes at the most, since a worker rests meanwhile.
_WHILE = 15.0
_MOST_DOUBLINGS = 6


@dataclass(slots=True)
class SuspectGroup:
    """What is due of a group, and served here."""

    id: UUID
    parts: list[Suspected] = field(default_factory=list)

    @property
    def alone(self) -> bool:
        """Whether it is a single command that is to run alone."""
        return any(part.alone for part in self.parts)

    @property
    def since(self) -> float:
        """For how long it has waited, in seconds."""
        return max(part.since for part in self.parts)


def grouped(parts: Iterable[Suspected]) -> list[SuspectGroup]:
    """The groups that have something due; those that run alone come last."""
    groups: dict[UUID, SuspectGroup] = {}
    for part in parts:
        if part.oldest is not None:
            groups.setdefault(part.group, SuspectGroup(part.group)).parts.append(part)
    return sorted(groups.values(), key=lambda group: group.alone)


def time_of(crashes: int) -> float:
    """How long one is watched that has died so often, in seconds."""
    return float(_WHILE * 2 ** min(crashes, _MOST_DOUBLINGS))
