"""What the daemon tells of its health.

Owns the answers to liveness and readiness probes. Promises that a database that is away makes the
worker unready, never unhealthy: a restart would not help. Known limit: it tells what the last
seconds were like, not what the next statement will do.
"""

from collections.abc import Callable, Sequence

from inboxd.admin.http import HealthPart
from inboxd.daemon.incarnation import Incarnation


class DaemonHealth:
    """Speaks for the current incarnation."""

    def __init__(self, current: Callable[[], Incarnation | None]) -> None:
        """Ask `current` for it; None: the first one is not made yet."""
        self._current = current

    def live(self) -> Sequence[HealthPart]:
        """The event loop answers, or there would be no answer."""
        return [HealthPart("loop", ok=True)]

    def ready(self) -> Sequence[HealthPart]:
        """Connected, leased, processing, and not draining."""
        now = self._current()
        if now is None or not now.ready:
            return [HealthPart("worker", ok=False, detail="starting")]
        names = ("events", "commands")
        parts = [
            HealthPart(
                "lease", ok=not now.lease.suspended, detail=f"renewed {now.lease.age():.1f} s ago"
            ),
            HealthPart(
                "worker", ok=not now.draining, detail="draining" if now.draining else "running"
            ),
        ]
        for name, processor in zip(names, now.processors, strict=True):
            reason = processor.held_back
            if reason is None and now.standing_still(processor):
                reason = "waits for the database"
            parts.append(
                HealthPart(name, ok=processor.healthy and reason is None, detail=reason or "")
            )
        return parts
