"""The context that each maintenance task gets."""

from dataclasses import dataclass
from uuid import UUID

from inboxd.store.pools import Pool
from inboxd.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class MaintenanceContext:
    """pool: the daemon's own connections; me: the worker that runs the task."""

    pool: Pool
    metrics: Metrics
    me: UUID
