"""What a worker knows of the rows that have just arrived in lines, bucket by bucket.

Owns the cursors of (topic, bucket) pairs: the id up to which everything was settled or lined up.
Promises that no cursor passes by a row that may still be committed, that a bucket is asked again
until nothing was found in it, that the one asked last comes last, and that a bucket which a page of
this worker holds is left alone. Pure. Known limit: what comes to lie behind a cursor (a dead letter
without a position that is replayed) is found by the next survey.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Bucket = tuple[str, int]

# Topics are free text: a producer that invents them must not fill our memory.
_MOST_IDLE = 4096


@dataclass(slots=True)
class Arrivals:
    """`after`: the cursor of each known bucket; `next`: from which id a bucket may have rows."""

    after: dict[Bucket, int] = field(default_factory=dict)
    next: dict[Bucket, int] = field(default_factory=dict)
    held: set[Bucket] = field(default_factory=set)

    def survey(self, seen: Iterable[tuple[Bucket, int]], complete: Sequence[int]) -> None:
        """All buckets that have rows, and the first id of each: cursors go back to it.

        complete: the bound of each bucket, as it was before anybody looked. Above it, what comes
        before the first id that was seen may still be committed, so no cursor goes there.
        """
        if len(self.after) > _MOST_IDLE:
            self.after.clear()
        self.next = dict(seen)
        for bucket, first in self.next.items():
            self.after[bucket] = min(first - 1, complete[bucket[1]])

    def look(self, found: Iterable[tuple[Bucket, int]]) -> None:
        """Lanes that have rows behind their cursors, from which id on."""
        for bucket, first in found:
            if bucket in self.after and bucket not in self.held:
                self.next[bucket] = first

    def pick(self, bound: Callable[[Bucket], int], most: int) -> list[Bucket]:
        """Lanes that may have rows up to the bound of their bucket, the longest unasked first."""
        ready = [bucket for bucket, first in self.free() if first <= bound(bucket)]
        return ready[:most]

    def free(self) -> list[tuple[Bucket, int]]:
        """Lanes that may have rows and are not held by a page of ours."""
        return [(bucket, first) for bucket, first in self.next.items() if bucket not in self.held]

    def hold(self, buckets: Iterable[Bucket]) -> None:
        """A page of ours has these."""
        self.held.update(buckets)

    def release(self, buckets: Iterable[Bucket]) -> None:
        """It has them no more."""
        self.held.difference_update(buckets)

    def taken(self, bucket: Bucket, last: int) -> None:
        """Everything up to this id was settled or lined up, in a transaction that has committed."""
        if bucket in self.after:
            self.after[bucket] = max(last, self.after[bucket])
            if self.next.pop(bucket, None) is not None:
                self.next[bucket] = self.after[bucket] + 1

    def empty(self, bucket: Bucket) -> None:
        """Nothing more was found in it, for now."""
        self.next.pop(bucket, None)

    def forget(self) -> None:
        """Drop everything remembered of the server."""
        self.after.clear()
        self.next.clear()
