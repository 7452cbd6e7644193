"""How fast sequential topics are drained, compared with single events.

    make bench ONLY=sequential        # or: python benchmarks/sequential.py --rows 100000

The time is from the first call of a handler until no event waits any more. «One blocked»: one key
has a tenth as many additional events behind a dead letter, which are put into their line meanwhile.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import partial

import asyncpg
from drain import Drain

from harness.backlog import fill_lines
from harness.bench import Bench, main
from harness.figures import Comparison, Line, Target


@dataclass(frozen=True)
class Ordered(Drain):
    """A sequential topic's backlog, with `blocked` more events of one key behind a dead letter."""

    blocked: int = 0

    # The events of the blocked line stay.
    tables: tuple[str, ...] = ("events where position is null",)

    async def fill(self, connection: asyncpg.Connection) -> None:
        """Insert the backlog; the events of the blocked key are spread over it."""
        key = f"case when n % 11 = 0 then 'hot' else {self.key} end" if self.blocked else self.key
        await fill_lines(connection, self.rows, key, self.blocked)


def comparisons(bench: Bench) -> Iterator[Comparison]:
    """Keys compared with single events, several workers compared with one."""
    single = Drain("no-op events", "events", bench.rows)
    many = Ordered("events of 10,000 keys", "events", bench.rows, key="'key ' || n % 10000")
    yield _beside(bench, many, single, Target(share=0.7), "single")
    four = replace(many, what="events of 10,000 keys, four workers", workers=4)
    yield _beside(bench, four, many, Target(share=1.0), "one worker")
    some = replace(many, key="'key ' || n % 1000", blocked=bench.rows // 10)
    some = replace(some, what="events of 1,000 keys, one blocked")
    yield _beside(bench, some, single, None, "single")
    four = replace(some, what="events of 1,000 keys, one blocked, four workers", workers=4)
    yield _beside(bench, four, some, Target(share=1.0), "one worker")
    one = replace(many, what="events of one key", key="'key'")
    yield _beside(bench, one, single, Target(15_000), "single")


def _beside(
    bench: Bench, drain: Drain, other: Drain, target: Target | None, name: str
) -> Comparison:
    measure, beside = partial(drain.measure, bench), partial(other.measure, bench)
    return Comparison(drain.what, measure, target, name, beside)


def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for each kind of backlog."""
    return bench.compare(comparisons(bench))


if __name__ == "__main__":
    main(figures, __doc__)
