"""Events of sequential topics: a source of pages that keep the order of each key (promise 5).

A page takes a few buckets that no other page has, each locked for the transaction, then reads them
in a later statement: arrivals up to the horizon, and lined-up rows from the heads of their lines
(ADR 12). Cursors move only after a commit, and never past a row that is neither settled nor lined
up. Known limit: while a page runs, no other worker processes new events of its buckets. *See:*
`source`, before it; `events/horizon.py` and `store/lines.py`, after it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from inboxd.engine.parts import Parts
from inboxd.engine.processor import Survey, soonest
from inboxd.events.horizon import HorizonReader
from inboxd.events.page_order import PageOrder
from inboxd.events.sources.bucket_claim import BucketClaim, bucket_of
from inboxd.events.sources.served_lines import ServedLines
from inboxd.events.sources.source import LineLook
from inboxd.events.topic_limits import TopicLimits
from inboxd.model.arrivals import Arrivals, Bucket
from inboxd.model.horizon import BUCKETS
from inboxd.model.lane import Key, Lane
from inboxd.store import lines
from inboxd.store.lines import IdRange, Line
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session

# Locks free buckets of these, at most the given number, until the transaction ends.
Take: TypeAlias = Callable[[Session, Sequence[Bucket], int], Awaitable[Sequence[Bucket]]]

# Maximum number of buckets that are tried together: other workers may have half of them.
_TRIED = 2 * BUCKETS
# Pages that a worker has at the same time: one is settled while the next one runs.
_PAGES = 2
# Maximum number of lines that are claimed together.
_LINES = 100
# A second claim is worth its round trip if more than 1 / _FEW of the page is free.
_FEW = 4
# Pause in seconds before another try for rows that could not be claimed: half of the first, and the
# longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25
# Pause in seconds before a look at the lines behind such rows.
_NEXT_PAUSE = 0.02


class SequentialSource:
    def __init__(
        self,
        parts: Parts,
        reader: HorizonReader,
        served: ServedLines | None = None,
        take: Take | None = None,
        pages: int = _PAGES,
    ) -> None:
        """served: a relay's topic. take: leases buckets. pages: of this worker at a time."""
        self._parts = parts
        self._reader = reader
        self._rewinds = reader.rewinds
        self._served = served or ServedLines(parts)
        self._try = take or self._try_buckets
        self._leases = take is not None
        self._arrivals = Arrivals()
        self._heads: dict[Key, Lane] = {}
        # Lines with more lined-up rows: their heads are behind the cursors.
        self._going: dict[Line, None] = {}
        # _passing: due heads of other workers are skipped: later claims continue behind them, up to
        # the last head. _more_heads: there may be further heads behind the ones that were read.
        self._passing = self._more_heads = False
        self._wanting = False
        self._pause = _FIRST_PAUSE
        self._pages = pages
        self._limits = TopicLimits(parts)

    def forget(self) -> None:
        self._arrivals.forget()
        self._served.forget()
        self._heads.clear()
        self._going.clear()
        self._passing = self._wanting = False

    @property
    def again(self) -> float | None:
        """Seconds to wait for open producers, or for other workers; None: no wait."""
        if not self._wanting:
            return self._limits.again
        if self._passing:
            return _NEXT_PAUSE
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return self._pause

    async def survey(self, session: Session, seen: LineLook) -> Survey:
        arrived = [each for each in seen.arrived if each.mode == self._served.mode]
        self._served.forget()
        ours = await self._served.ours(session, [(each.topic, each.type) for each in arrived])
        found = [
            # An intake adds events before the existing ones.
            ((each.topic, each.bucket), 1 if each.topic in seen.held else each.first)
            for each in arrived
            if (each.topic, each.type) in ours
        ]
        self._arrivals.survey(found, seen.complete)
        own = self._served.mode
        heads = [s for s, mode in seen.heads if mode == own and self._served.serves(s.key)]
        self._heads = {s.key: self._heads.get(s.key, Lane(s.key)) for s in heads}
        due = [s.key for s in heads if s.oldest is not None]
        if not self._passing:
            for key in due:
                self._heads[key].rewind()
        return Survey(bool(found or due), soonest(s.next for s in heads))

    def is_known(self) -> bool:
        return bool(self._arrivals.after or self._heads or self._going)

    async def claim(self, session: Session, most: int) -> BucketClaim | None:
        self._wanting = False
        due, waiting = await self._due(session), await self._arrived(session)
        topics = [*(line.topic for line in due), *(topic for topic, _ in waiting)]
        reach = len(due) + min(self._share(), most)
        allowed = await self._limits.allow(session, topics, most, reach)
        most = allowed.most
        taken, arrived = await self._take_share(session, due, waiting, allowed.topics)
        had = frozenset([*taken, *arrived])
        going = [line for line in due if _bucket_of_line(line) in had]
        self._wanting |= len(going) < len(due) or bool(self._arrivals.free())
        share = -(-most // 2) if arrived else most
        lined_up = await self._claim_lined_up(session, going, share)
        fresh, drained = await self._claim_arrivals(session, arrived, most - len(lined_up))
        for line in going:
            self._going.pop(line, None)
        if self._more_heads and len(self._going) >= _LINES // 2:
            self._going.clear()
            self._passing = True
        rows = [*lined_up, *sorted(fresh, key=lambda row: row["id"])]
        if not rows:
            return None
        self._wanting, self._pause = False, _FIRST_PAUSE
        cut = len(lined_up) == share
        return BucketClaim(
            rows=rows,
            full=cut or len(drained) < len(arrived),
            order=PageOrder(self._parts),
            buckets=had,
            arrived=arrived,
            drained=drained,
            lined_up=going,
            cut=cut,
            arrivals=self._arrivals,
            going=self._going,
        )

    # --------------------------------------------------------------------------------- claims

    async def _due(self, session: Session) -> list[Line]:
        """Lines with lined-up rows that may run: known ones, and lines whose heads are due."""
        lanes = [lane for lane in self._heads.values() if self._served.serves(lane.key)]
        # Drop lines of a topic that is paused now: a survey finds them again after the pause.
        allow = self._parts.controls.allow
        for line in [line for line in self._going if not allow("topic", line.topic, "")]:
            del self._going[line]
        room = _LINES - len(self._going)
        self._more_heads = room <= 0
        if lanes and room > 0:
            heads = await lines.due_heads(session, lanes, room)
            for head in heads:
                lanes[head.lane].advance(head.run_at, head.id)
                self._going[head.line] = None
            self._more_heads = len(heads) == room
            if self._passing and not self._more_heads:  # the next reading begins at the first head
                self._passing = False
                for lane in lanes:
                    lane.rewind()
        held = self._arrivals.held
        return [line for line in self._going if _bucket_of_line(line) not in held]

    async def _arrived(self, session: Session) -> list[Bucket]:
        """Buckets with arrivals that may be taken, the least recently asked first."""
        if not self._arrivals.free():
            await self._look(session)
        bound = self._reader.horizon.bound
        picked = self._pick()
        waiting = bool(self._arrivals.free()) and not picked
        if (picked or waiting) and self._reader.is_due(hurried=waiting):
            await self._reader.read(session)
        if self._rewinds != self._reader.rewinds:
            self._rewinds = self._reader.rewinds
            self.forget()
            self._wanting = True  # sweep everything from the beginning
        picked = self._pick()
        self._parts.metrics.horizon_buckets.set(
            sum(first > bound(bucket[1], bucket[0]) for bucket, first in self._arrivals.free())
        )
        return picked

    def _pick(self) -> list[Bucket]:
        bound, allow = self._reader.horizon.bound, self._parts.controls.allow
        picked = self._arrivals.pick(lambda bucket: bound(bucket[1], bucket[0]), BUCKETS * BUCKETS)
        return [bucket for bucket in picked if allow("topic", bucket[0], "")][:_TRIED]

    def _share(self) -> int:
        """Number of buckets for a page, so that the pages of all workers have enough."""
        return max(1, BUCKETS // (self._pages * (self._parts.fleet.peers + 1)))

    async def _take_share(
        self,
        session: Session,
        due: Sequence[Line],
        waiting: Sequence[Bucket],
        topics: frozenset[str],
    ) -> tuple[list[Bucket], list[Bucket]]:
        """With leases, both kinds together get one share: leases may last long."""
        share, due_in = self._share(), list(dict.fromkeys(map(_bucket_of_line, due)))
        if not self._leases:
            taken = await self._take(session, due_in, topics, len(due_in))
            return taken, await self._take(session, waiting, topics, share)
        most = -(-share // 2) if waiting else share
        taken = await self._take(session, due_in, topics, most)
        rest = max(1, share - len(taken))
        return taken, await self._take(session, waiting, topics, rest)

    async def _take(
        self, session: Session, wanted: Sequence[Bucket], topics: frozenset[str], most: int
    ) -> list[Bucket]:
        """Take up to `most` of the wanted buckets that no other page has, in their order."""
        tried = [bucket for bucket in wanted if bucket[0] in topics]
        return [*await self._try(session, tried, most)] if tried else []

    async def _try_buckets(
        self, session: Session, buckets: Sequence[Bucket], most: int
    ) -> Sequence[Bucket]:
        return await lines.try_buckets(session, buckets, most)

    async def _look(self, session: Session) -> None:
        held = self._arrivals.held
        cursors = [each for each in self._arrivals.after.items() if each[0] not in held]
        if cursors:
            found = await lines.look(session, cursors)
            ours = await self._served.ours(
                session, [(bucket[0], type_) for bucket, _, type_ in found]
            )
            self._arrivals.look(
                (bucket, first) for bucket, first, type_ in found if (bucket[0], type_) in ours
            )

    async def _claim_lined_up(
        self, session: Session, going: Sequence[Line], most: int
    ) -> list[ClaimedEvent]:
        return await lines.claim_lined_up(session, going, most) if going else []

    async def _claim_arrivals(
        self, session: Session, arrived: Sequence[Bucket], most: int
    ) -> tuple[list[ClaimedEvent], frozenset[Bucket]]:
        """Each bucket gives an equal share first; the rest goes to buckets that have more.

        Neighbouring rows on the disk belong to different buckets: a page of one bucket would touch
        a block for each row.
        """
        after, bound = self._arrivals.after, self._reader.horizon.bound
        # Cursors may be forgotten by now: a worker died, or a chunk was left to a peer.
        asked = [bucket for bucket in arrived if bucket in after][: max(0, most)]
        if not asked:
            return [], frozenset()
        share = most // len(asked)
        ranges = [IdRange(*bucket, after[bucket], bound(bucket[1], bucket[0])) for bucket in asked]
        rows = await lines.claim_arrivals(session, ranges, most, share)
        counts = Counter(map(bucket_of, rows))
        cut = [bucket for bucket in asked if counts[bucket] == share]
        drained = frozenset(asked).difference(cut)
        room = most - len(rows)
        if cut and room > most // _FEW:
            last = {bucket_of(row): row["id"] for row in rows}
            ranges = [IdRange(*bucket, last[bucket], bound(bucket[1], bucket[0])) for bucket in cut]
            more = await lines.claim_arrivals(session, ranges, room)
            rows += more
            drained |= _drained(cut, more, room)
        return rows, drained


def _bucket_of_line(line: Line) -> Bucket:
    return line.topic, line.bucket


def _drained(asked: Sequence[Bucket], rows: Sequence[ClaimedEvent], most: int) -> frozenset[Bucket]:
    """The buckets that have no more; rows: in the statement's order."""
    if len(rows) < most:
        return frozenset(asked)
    last = asked.index(bucket_of(rows[-1])) if rows else 0
    return frozenset(asked[:last])
