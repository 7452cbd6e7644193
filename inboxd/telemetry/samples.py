"""Metrics of samples: how old what is shown is, and what has arrived.

Owns their names, labels and help texts; `docs/metrics.md` is held against them by a test. Promises
that the age grows by itself, whoever takes samples or does not, and that no clock of this machine
is compared with the database's: the age is the database's when the sample was read, and what has
passed since then.
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
        """Until there is a sample, the age is that of this worker's first look."""
        self._taken = monotonic()
        self._written: Mapping[str, int] = {}
        self._age = Gauge(
            "inboxd_sample_age_seconds",
            "How long ago what this worker shows of the backlog was counted, by the worker that "
            "leads.",
            registry=registry,
        )
        self._age.set_function(lambda: monotonic() - self._taken)
        registry.register(self)

    def show(self, age: float, written: Mapping[str, int]) -> None:
        """Show that a sample is so old, and the rows of each kind that had been written by then."""
        self._taken = monotonic() - age
        self._written = written

    def describe(self) -> Iterator[CounterMetricFamily]:
        """Name the metric without its values, as the registry asks at registration."""
        yield CounterMetricFamily(
            "inboxd_arrivals",
            "Events (of each topic apart) and commands that any producer or worker has inserted, "
            "as the server counts; of the newest sample.",
            labels=("kind",),
        )

    def collect(self) -> Iterator[Metric]:
        """What has arrived, by kind."""
        for family in self.describe():
            for kind, rows in self._written.items():
                family.add_metric((kind,), rows)
            yield family
