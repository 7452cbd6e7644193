"""Groups of suspects: commands that ran together on a worker when it died (ADR 20)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from inboxd.store.commands import Suspected

# Seconds for which a group runs before others may run beside it, doubled for each death: at most 16
# minutes, since the worker starts nothing else in that time.
_WATCH_SECONDS = 15.0
_MOST_DOUBLINGS = 6


@dataclass(slots=True)
class SuspectGroup:
    id: UUID
    parts: list[Suspected] = field(default_factory=list)

    @property
    def alone(self) -> bool:
        return any(part.alone for part in self.parts)

    @property
    def since(self) -> float:
        """Seconds that the group has waited."""
        return max(part.since for part in self.parts)


def grouped(parts: Iterable[Suspected]) -> list[SuspectGroup]:
    """Groups with due commands; those that must run alone come last."""
    groups: dict[UUID, SuspectGroup] = {}
    for part in parts:
        if part.oldest is not None:
            groups.setdefault(part.group, SuspectGroup(part.group)).parts.append(part)
    return sorted(groups.values(), key=lambda group: group.alone)


def time_of(crashes: int) -> float:
    """Seconds for which a group with this many deaths is watched."""
    return float(_WATCH_SECONDS * 2 ** min(crashes, _MOST_DOUBLINGS))
