"""Rows that have just arrived in lines, as one worker knows them, bucket by bucket.

Promises that no cursor passes a row that may still be committed, that a bucket is read until it is
found empty, and that buckets take turns. Known limit: a row that appears behind a cursor (a
replayed dead letter without a position) waits for the next survey.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Bucket = tuple[str, int]

# Topics are free text: a producer that invents topics must not fill the memory.
_MOST_IDLE = 4096


@dataclass(slots=True)
class Arrivals:
    """`after`: the cursor of each known bucket; `next`: the id from which it may have rows."""

    after: dict[Bucket, int] = field(default_factory=dict)
    next: dict[Bucket, int] = field(default_factory=dict)
    held: set[Bucket] = field(default_factory=set)

    def survey(self, seen: Iterable[tuple[Bucket, int]], complete: Sequence[int]) -> None:
        """Set cursors to the first ids, at most to `complete`: the bounds before the survey."""
        if len(self.after) > _MOST_IDLE:
            self.after.clear()
        self.next = dict(seen)
        for bucket, first in self.next.items():
            self.after[bucket] = min(first - 1, complete[bucket[1]])

    def look(self, found: Iterable[tuple[Bucket, int]]) -> None:
        for bucket, first in found:
            if bucket in self.after and bucket not in self.held:
                self.next[bucket] = first

    def pick(self, bound: Callable[[Bucket], int], most: int) -> list[Bucket]:
        """Buckets with rows below their bound, the least recently read first."""
        ready = [bucket for bucket, first in self.free() if first <= bound(bucket)]
        return ready[:most]

    def free(self) -> list[tuple[Bucket, int]]:
        return [(bucket, first) for bucket, first in self.next.items() if bucket not in self.held]

    def hold(self, buckets: Iterable[Bucket]) -> None:
        self.held.update(buckets)

    def release(self, buckets: Iterable[Bucket]) -> None:
        self.held.difference_update(buckets)

    def taken(self, bucket: Bucket, last: int) -> None:
        """Move the cursor: a committed transaction settled or lined up the rows up to this id."""
        if bucket in self.after:
            self.after[bucket] = max(last, self.after[bucket])
            if self.next.pop(bucket, None) is not None:
                self.next[bucket] = self.after[bucket] + 1

    def empty(self, bucket: Bucket) -> None:
        self.next.pop(bucket, None)

    def forget(self) -> None:
        self.after.clear()
        self.next.clear()
