"""What was done in a time: how much, how well, how fast; the numbers that are shown of statistics.

*See:* `store/statistics.py`, where they come from; docs/metrics.md, which says what each is.
"""

from dataclasses import dataclass
from typing import get_args

from inboxd.model.durations import Durations
from inboxd.model.measures import Rank
from inboxd.store.statistics import Figures

RANKS: tuple[Rank, ...] = get_args(Rank)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How long something took, in seconds, each percentile to within its bucket; None: unknown.

    count: how many there were. What code of before has counted has no histogram, so percentiles are
    of the others alone.
    """

    count: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    longest: float | None


@dataclass(frozen=True, slots=True)
class Throughput:
    """What was done in so many seconds.

    executed: executions, whatever became of them. reprocessed: those that followed a retry or a
    replay; after_retry, after_replay: the successes of these, failed_again their dead letters. run:
    how long handlers took; wait: how long rows had been due; completion: from a row's creation to
    its success.
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
        """Successes a second."""
        return self.succeeded / self.seconds if self.seconds else 0.0

    @property
    def success(self) -> float | None:
        """Of the rows that succeeded or became dead letters, the share that succeeded."""
        return _share(self.succeeded, self.failed)

    @property
    def success_again(self) -> float | None:
        """The same of those that had failed before."""
        return _share(self.after_retry + self.after_replay, self.failed_again)


def throughput_of(figures: Figures, seconds: float) -> Throughput:
    """What figures of so many seconds say."""
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
        # Code of before did not count it at all.
        wait=percentiles(figures.wait, figures.wait.count),
        completion=percentiles(figures.completion, figures.succeeded),
    )


def percentiles(durations: Durations, count: int) -> Percentiles:
    """What is shown of how long so many took."""
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
