"""How fast sequential topics are drained, beside single events in the same turns.

    make bench ONLY=sequential        # or: python benchmarks/sequential.py --rows 100000

From the first call of a handler until nothing waits any more. «One blocked»: a tenth as many events
more belong to one key whose line a dead letter holds; they are lined up meanwhile.
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
    """A backlog of a sequential topic; blocked: so many of one key stand behind a dead letter."""

    blocked: int = 0

    # What stands in the blocked line stays.
    tables: tuple[str, ...] = ("events where position is null",)

    async def fill(self, connection: asyncpg.Connection) -> None:
        """Make the backlog; those of the blocked key are spread over it."""
        key = f"case when n % 11 = 0 then 'hot' else {self.key} end" if self.blocked else self.key
        await fill_lines(connection, self.rows, key, self.blocked)


def comparisons(bench: Bench) -> Iterator[Comparison]:
    """Keys beside single events, several workers beside one."""
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
    """A line for each kind of backlog."""
    return bench.compare(comparisons(bench))


if __name__ == "__main__":
    main(figures, __doc__)
