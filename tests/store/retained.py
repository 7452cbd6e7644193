"""The leader's task for retention, for tests of partitions.

    metrics = await let_go(database, {"events": "7d", "commands": "90d"})
    assert told(metrics, "inboxd_partitions_dropped_total", "events_history") == 1

The task runs once, in the test's own process.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inboxd.maintenance.partitions.retention import Retention
from inboxd.settings import Settings
from inboxd.store import partitions
from inboxd.store.partitions import Partition
from inboxd.store.session import Session
from inboxd.telemetry.metrics import Metrics
from tests.support import Database

MONTH = {"events": "30d", "commands": "90d"}


async def leads() -> bool:
    return True


async def let_go(
    database: Database,
    history: Mapping[str, Any] = MONTH,
    types: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Metrics:
    """Run the retention task once."""
    given = {"dsn": database.dsn, "lock_timeout": "200ms", **settings}
    loaded = Settings(database=given, history=dict(history), types=dict(types or {}))  # type: ignore[arg-type]
    metrics = Metrics("0")
    await Retention(loaded, metrics, leads).let_go()
    return metrics


async def let_all_go(
    database: Database, history: Mapping[str, Any] = MONTH, **settings: Any
) -> None:
    """Run the task twice: bodies are dropped after the history that needed them."""
    for _ in range(2):
        await let_go(database, history, **settings)


def told(metrics: Metrics, name: str, table: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"table": table})


def files_in(folder: Path) -> list[str]:
    """Names of the folder's files, drafts included."""
    return sorted(file.name for file in folder.iterdir())


async def retire(session: Session, part: str) -> Partition:
    """Mark a partition as retired."""
    (found,) = [each for each in await partitions.listed(session) if each.part == part]
    await partitions.retire(session, found)
    return found
