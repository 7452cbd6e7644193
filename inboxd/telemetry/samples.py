"""Metrics of samples: their age, and the rows that have arrived.

Owns their names, labels and help texts; `make docs` writes `docs/reference/metrics.md` from them.
Promises that the age grows by itself, also while no worker takes samples, and that no clock of this
machine is compared with the database's: the age is the database's when the sample was read, plus
the time that has passed since then.
*See:* `inboxd/maintenance/samples.py`, which shows them.
"""

from collections.abc import Iterator, Mapping
from time import monotonic

from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


class SampleMetrics(Collector):
    """The age of the newest sample, and the rows that were written by then."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Until the first sample, the age counts from now."""
        self._taken = monotonic()
        self._written: Mapping[str, int] = {}
        self._age = Gauge(
            "inboxd_sample_age_seconds",
            "Time since the leader took the sample of the backlog that this worker shows.",
            registry=registry,
        )
        self._age.set_function(lambda: monotonic() - self._taken)
        registry.register(self)

    def show(self, age: float, written: Mapping[str, int]) -> None:
        """Show a sample's age in seconds, and the rows of each kind written by then."""
        self._taken = monotonic() - age
        self._written = written

    def describe(self) -> Iterator[CounterMetricFamily]:
        """Name the metric without its values, for the registration."""
        yield CounterMetricFamily(
            "inboxd_arrivals",
            "Events (counted in each topic) and commands that producers and workers have inserted, "
            "as the server counted them at the newest sample.",
            labels=("kind",),
        )

    def collect(self) -> Iterator[Metric]:
        """The rows that have arrived, by kind."""
        for family in self.describe():
            for kind, rows in self._written.items():
                family.add_metric((kind,), rows)
            yield family
