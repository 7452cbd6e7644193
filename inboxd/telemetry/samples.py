"""Metrics of samples: their age, and the rows that have arrived.

Promises that the age grows by itself, also while no worker takes samples, and that clocks are not
compared: it is the database's age at the reading, plus the time that has passed since then.
"""

from collections.abc import Iterator, Mapping
from time import monotonic

from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


class SampleMetrics(Collector):
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
        yield CounterMetricFamily(
            "inboxd_arrivals",
            "Events (counted in each topic) and commands that producers and workers have inserted, "
            "as the server counted them at the newest sample.",
            labels=("kind",),
        )

    def collect(self) -> Iterator[Metric]:
        for family in self.describe():
            for kind, rows in self._written.items():
                family.add_metric((kind,), rows)
            yield family
