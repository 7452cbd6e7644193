"""Outcomes of chunks that their transaction must write; notes on a chunk can be removed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inboxd.events.chunks.reading import HeldChunk
from inboxd.events.settling import PageResults
from inboxd.store.chunks import PositionRange
from inboxd.store.rows import ClaimedEvent


@dataclass(slots=True)
class WrittenChunks:
    """settled: stretches, seconds per event, seconds of waiting. leaving: ids leaving lines."""

    results: PageResults = field(default_factory=PageResults)
    settled: list[tuple[PositionRange, float, float]] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    # Of settled stretches: type, tenant, number of events, seconds of each, seconds for which the
    # chunk had been due.
    types: list[tuple[str, str | None, int, float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WrittenMark:
    requeues: int
    counts: int
    leaving: int
    told: int

    @classmethod
    def of(cls, written: WrittenChunks) -> "WrittenMark":
        results = written.results
        told = len(results.told)
        return cls(len(results.requeues), len(results.counts), len(written.leaving), told)

    def back(self, written: WrittenChunks, error: BaseException) -> BaseException:
        """Remove the notes on a chunk that is requeued as a whole."""
        del written.results.requeues[self.requeues :]
        del written.results.counts[self.counts :]
        del written.leaving[self.leaving :]
        del written.results.told[self.told :]
        return error


def left_of(part: HeldChunk, written: Sequence[PageResults]) -> list[ClaimedEvent]:
    met = {id_ for results in written for id_, _ in results.done}
    met |= {each.id for results in written for each in results.requeues}
    return [row for row in part.rows if row["id"] not in met]
