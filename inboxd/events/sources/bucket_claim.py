"""A page's claim on sequential topics: rows of a few buckets, which no other page has.

Cursors move only after its commit, and never past a row that is neither settled nor lined up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.events.page_order import PageOrder
from inboxd.model.arrivals import Arrivals, Bucket
from inboxd.store import lines
from inboxd.store.lines import Line
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class BucketClaim:
    """Rows of buckets that only this page has.

    arrived: buckets whose arrivals it took; drained: the buckets whose arrivals it took completely.
    lined_up: lines whose lined-up rows it took; cut: whether these may have more.
    """

    rows: Sequence[ClaimedEvent]
    full: bool
    order: PageOrder
    buckets: frozenset[Bucket]
    arrived: Sequence[Bucket]
    drained: frozenset[Bucket]
    lined_up: Sequence[Line]
    cut: bool
    arrivals: Arrivals
    # Lines with more lined-up rows; the source's own collection.
    going: dict[Line, None]
    exclusive: bool = True

    def ran(self, met: int) -> None:  # noqa: ARG002 - part of the contract
        self.arrivals.hold(self.buckets)

    def ended(self, met: int, *, committed: bool) -> None:
        self.arrivals.release(self.buckets)
        if not committed:
            return
        last = {bucket_of(row): row["id"] for row in self.rows[:met] if row["position"] is None}
        left = {bucket_of(row) for row in self.rows[met:]}
        # A bucket whose rows did not fit into the page is asked first for the next page.
        for bucket in (each for each in self.arrived if each in last or each in self.drained):
            self.arrivals.taken(bucket, last.get(bucket, 0))
            if bucket in self.drained and bucket not in left:
                self.arrivals.empty(bucket)
        if self.cut or left:
            still = self.order.lines
            for line in self.lined_up:
                if (line.topic, line.key) not in still:
                    self.going[line] = None

    async def hold(
        self, session: Session, row: ClaimedEvent, before: Sequence[ClaimedEvent]
    ) -> None:
        """Lock the row's bucket, and line up the unsettled rows before it."""
        await lines.hold(session, [bucket_of(row)])
        own = [
            each["id"]
            for each in before
            if each["ordering_key"] == row["ordering_key"]
            and each["topic"] == row["topic"]
            and each["position"] is None
        ]
        if own:
            await lines.line_up(session, own)


def bucket_of(row: ClaimedEvent) -> Bucket:
    return row["topic"], row["bucket"]
