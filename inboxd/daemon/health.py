"""Health: the answers to liveness and readiness probes.

An unreachable database makes the worker unready, never unhealthy: a restart would not help.
"""

from collections.abc import Sequence
from typing import Protocol

from inboxd.admin.server import HealthPart
from inboxd.daemon.incarnation import Incarnation


class _Program(Protocol):
    def ready(self) -> Sequence[HealthPart]: ...


class ProcessHealth:
    def __init__(self, programs: Sequence[_Program]) -> None:
        self._programs = programs

    def live(self) -> Sequence[HealthPart]:
        """Always healthy: a blocked event loop would not answer at all."""
        return [HealthPart("loop", ok=True)]

    def ready(self) -> Sequence[HealthPart]:
        return [part for program in self._programs for part in program.ready()]


def health_of(now: Incarnation | None) -> Sequence[HealthPart]:
    """Whether the worker is connected, leased, processing, and not draining; None: not yet made."""
    if now is None or not now.ready:
        return [HealthPart("worker", ok=False, detail="starting")]
    names = ("events", "commands")
    parts = [
        HealthPart(
            "lease", ok=not now.lease.suspended, detail=f"renewed {now.lease.age():.1f} s ago"
        ),
        HealthPart("worker", ok=not now.draining, detail="draining" if now.draining else "running"),
    ]
    for name, processor in zip(names, now.processors, strict=True):
        reason = processor.held_back
        if reason is None and now.standing_still(processor):
            reason = "waits for the database"
        parts.append(HealthPart(name, ok=processor.healthy and reason is None, detail=reason or ""))
    return parts
