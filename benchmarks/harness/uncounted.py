"""The command line, whose worker keeps none of the numbers that `counting` measures.

    python -P benchmarks/harness/uncounted.py run

There is no setting for this: an operator who had it would see wrong totals. The parts are replaced
in this process: durations are not added up for the database, no statistics are written or rolled
up, no samples are taken or shown, and no day is counted. The counters and histograms for Prometheus
stay.
"""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from inboxd.daemon import incarnation
from inboxd.daemon.maintenance import MaintenanceTask, maintenance_tasks
from inboxd.main import main
from inboxd.model.durations import Durations
from inboxd.telemetry import tally

LEFT_OUT = {"statistics", "gauges", "statistics roll-up", "samples", "census"}


class Unmeasured(Durations):
    """Durations that are not added up."""

    def fold(self, ordered: list[float], total: float) -> None: ...


def tasks(*given: Any) -> Iterator[MaintenanceTask]:
    """The tasks of maintenance, without those that keep numbers."""
    found = list(maintenance_tasks(*given))
    if missing := LEFT_OUT - {task.name for task in found}:
        raise SystemExit(f"there is no maintenance task {', '.join(sorted(missing))}")
    return (task for task in found if task.name not in LEFT_OUT)


async def write_nothing(*_given: Any, **_options: Any) -> None: ...


if __name__ == "__main__":
    with (
        patch.object(tally, "Durations", Unmeasured),
        patch.object(incarnation, "maintenance_tasks", tasks),
        patch.object(incarnation, "write_statistics", write_nothing),
    ):
        main()
