"""Objects that the parts of one incarnation share."""

from dataclasses import dataclass

from inboxd.engine.batch_folder import BatchFolder
from inboxd.engine.breakers import Breakers
from inboxd.engine.controls import Controls
from inboxd.engine.endpoints import Endpoints
from inboxd.engine.exclusive_run import ExclusiveRun
from inboxd.engine.execution import Executions
from inboxd.engine.fleet import Fleet
from inboxd.engine.hooks import Hooks
from inboxd.engine.queues import Queues
from inboxd.model.backoff import Policy
from inboxd.registry.registry import Registry
from inboxd.settings import Settings
from inboxd.store.pools import Pool
from inboxd.store.workers import WorkerIdentity
from inboxd.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Parts:
    """pool: the daemon's own connections; handler_pool: connections for handlers of commands."""

    settings: Settings
    pool: Pool
    handler_pool: Pool
    registry: Registry
    policy: Policy
    metrics: Metrics
    executions: Executions
    hooks: Hooks
    me: WorkerIdentity
    fleet: Fleet
    folder: BatchFolder
    controls: Controls
    breakers: Breakers
    endpoints: Endpoints
    queues: Queues
    exclusive_run: ExclusiveRun
