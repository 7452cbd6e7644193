"""The record of a maintenance task's runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from inboxd.daemon.maintenance import MaintenanceTask, _noted
from inboxd.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio


async def test_a_task_that_never_succeeds_has_an_age() -> None:
    """Alerts on the age of the last success must not wait for a first success."""
    metrics, fails = Metrics("0"), True

    async def work() -> None:
        if fails:
            raise OSError("no right to")

    def last() -> float | None:
        name = "inboxd_maintenance_last_success_timestamp_seconds"
        return metrics.registry.get_sample_value(name, {"task": "retention"})

    context: Any = SimpleNamespace(metrics=metrics)
    task = _noted(context, MaintenanceTask("retention", 60.0, work))
    assert last() is None
    with pytest.raises(OSError, match="no right"):
        await task.run()
    begun = last()
    assert begun is not None
    with pytest.raises(OSError, match="no right"):
        await task.run()
    assert last() == begun
    fails = False
    await task.run()
    assert (last() or 0.0) > begun
