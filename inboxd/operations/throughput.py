"""The numbers that are shown of statistics: executions, outcomes, rates, durations."""

from dataclasses import dataclass
from typing import get_args

from inboxd.model.durations import Durations
from inboxd.model.measures import Rank
from inboxd.store.statistics import Figures

RANKS: tuple[Rank, ...] = get_args(Rank)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Durations in seconds; a percentile is exact to its bucket; None: unknown.

    Older releases counted without a histogram: percentiles leave their durations out.
    """

    count: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    longest: float | None


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput of a span of `seconds`.

    reprocessed: executions after a retry or a replay; failed_again: their dead letters. wait: from
    due time to claim; completion: from a row's creation to its success.
    """

    seconds: float
    executed: int
    succeeded: int
    failed: int
    retried: int
    deferred: int
    cancelled: int
    reprocessed: int
    after_retry: int
    after_replay: int
    failed_again: int
    run: Percentiles
    wait: Percentiles
    completion: Percentiles

    @property
    def rate(self) -> float:
        """Return the successes per second."""
        return self.succeeded / self.seconds if self.seconds else 0.0

    @property
    def success(self) -> float | None:
        """Return the share of successes among successes and dead letters; None without any."""
        return _share(self.succeeded, self.failed)

    @property
    def success_again(self) -> float | None:
        """Return the share of successes among reprocessed rows that ended; None without any."""
        return _share(self.after_retry + self.after_replay, self.failed_again)


def throughput_of(figures: Figures, seconds: float) -> Throughput:
    return Throughput(
        seconds=seconds,
        executed=figures.executed,
        succeeded=figures.succeeded,
        failed=figures.outcome("failed"),
        retried=figures.outcome("retried"),
        deferred=figures.outcome("deferred"),
        cancelled=figures.outcome("cancelled"),
        reprocessed=figures.reprocessed,
        after_retry=figures.outcome("succeeded", "retry"),
        after_replay=figures.outcome("succeeded", "replay"),
        failed_again=figures.outcome("failed", "retry", "replay"),
        run=percentiles(figures.run, figures.executed),
        # Older releases did not count waits.
        wait=percentiles(figures.wait, figures.wait.count),
        completion=percentiles(figures.completion, figures.succeeded),
    )


def percentiles(durations: Durations, count: int) -> Percentiles:
    return Percentiles(
        count=count,
        mean=durations.total / count if count else None,
        p50=durations.percentile(0.5),
        p95=durations.percentile(0.95),
        p99=durations.percentile(0.99),
        longest=durations.maximum if count else None,
    )


def _share(part: int, rest: int) -> float | None:
    return part / (part + rest) if part + rest else None
