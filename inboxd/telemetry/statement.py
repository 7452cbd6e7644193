"""Metrics of the daily statement, as the leader knows it."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge

from inboxd.model import daily_statement as names

# All kinds of findings, so that each begins at 0.
_WHAT = (
    *(names.MISSING, names.TOO_MANY, names.RECEIPTS_MISSING, names.EVENTS_WITHOUT_RECEIPT),
    *(names.RECEIPTS_WITHOUT_EVENTS, names.PARTITION_GONE, names.SPOOL_LEFT, *names.ONCE),
)


class StatementMetrics:
    """Open findings, and the age of the newest statement; hidden unless this worker leads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._findings = Gauge(
            "inboxd_statement_findings",
            "Findings of daily statements that do not add up and were not accepted, by kind; "
            "shown by the leader.",
            ["what"],
            registry=registry,
        )
        self._age = Gauge(
            "inboxd_statement_age_seconds",
            "Time since the end of the newest day that has a statement; shown by the leader.",
            [],
            registry=registry,
        )
        self.hide()

    def show(self, open_: Mapping[str, int], age: float | None) -> None:
        """Show the open findings by kind; age: None if no day has a statement yet."""
        for what in {*_WHAT, *open_}:
            self._findings.labels(what).set(open_.get(what, 0))
        self._age.set(float("nan") if age is None else age)

    def hide(self) -> None:
        self._findings.clear()
        self._age.set(float("nan"))
