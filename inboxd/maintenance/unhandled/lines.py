"""Events in lines of sequential topics that no living worker handles: each keeps its position.

Arrivals of a topic without any handlers are lined up, so that keys that stand still are visible. An
unhandled head is kept and blocks its line, or becomes a dead letter, or is ignored together with
the events of its type right behind it. Known limit: only the head becomes a dead letter.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from inboxd.maintenance.unhandled.events import EventChoice
from inboxd.maintenance.unhandled.judgement import Judgement
from inboxd.model.horizon import Horizon
from inboxd.model.lane import Lane
from inboxd.store import lines, workers
from inboxd.store.lines import IN_ORDER, Arrived, Head, IdRange
from inboxd.store.pools import lend, transaction
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session

_PAGE = 500


class UnhandledLines:
    def __init__(self, choice: EventChoice, freed: Callable[[], Awaitable[None]]) -> None:
        """freed: awaited when events behind an ended head may run."""
        self._choice = choice
        self._judgement = judgement = choice.judgement
        self._freed = freed
        self._horizon = Horizon()
        self._arrivals = replace(judgement)  # it measures its own grace

    async def settle(self) -> None:
        judgement, context = self._judgement, self._judgement.context
        async with lend(context.pool) as session:
            async with transaction(context.pool, session):
                self._horizon.take(await lines.read_horizon(session))
                arrived, seen = await lines.survey(session)
                heads = {(str(s.key[0]), str(s.key[1])) for s, mode in seen if mode in IN_ORDER}
                pairs = heads | {(each.topic, each.type) for each in arrived}
                unhandled = await workers.unhandled(session, pairs)
            lost = [each for each in arrived if self._is_lost(each, unhandled)]
            due = set(self._arrivals.due([(each.topic, each.type) for each in lost]))
            lined_up = [each for each in lost if (each.topic, each.type) in due]
            for each in lined_up:
                await self._line_up(session, each)
            waiting = [p for p in heads if p in unhandled and judgement.is_open("topic", *p)]
            ended = await self._choice.settle(
                session,
                judgement.due(sorted(waiting)),
                lambda pair: _HeadPages(judgement, session, Lane(pair)),
            )
        if lined_up or ended:
            await self._freed()

    def _is_lost(self, each: Arrived, unhandled: Mapping[tuple[str, str], bool]) -> bool:
        """Whether no worker takes the arrivals of a bucket, or lines them up."""
        return (
            each.mode in IN_ORDER
            and self._judgement.is_open("topic", each.topic, each.type)
            and not unhandled.get((each.topic, each.type), True)
        )

    async def _line_up(self, session: Session, each: Arrived) -> None:
        """Line up arrivals of a bucket, as long as no earlier event can still commit."""
        bucket, after = (each.topic, each.bucket), each.first - 1
        bound = self._horizon.bound(each.bucket, each.topic)

        async def page() -> tuple[int, bool]:
            nonlocal after
            if not await lines.try_buckets(session, [bucket]):
                return 0, False
            stretch = IdRange(*bucket, after, bound)
            rows = await lines.claim_arrivals(session, [stretch], _PAGE)
            if rows:
                await lines.line_up(session, [row["id"] for row in rows])
                after = rows[-1]["id"]
            return len(rows), bool(rows)

        await self._judgement.each_page(session, page)


@dataclass(frozen=True, slots=True)
class _HeadPages:
    judgement: Judgement
    session: Session
    lane: Lane

    async def fail(self, error: str) -> tuple[int, bool]:
        heads = await self._next()
        if not heads:
            return 0, False
        ids = [head.id for head in await self._held(heads)]
        failed = await lines.fail_heads(self.session, ids, error, self.judgement.grace)
        return failed, True

    async def take(self) -> tuple[list[int], bool]:
        (topic, type_) = self.lane.key
        heads = await self._next()
        subject = (str(topic), str(type_))
        if not heads or not await workers.unhandled(self.session, [subject]):
            return [], False
        held = [head.line for head in await self._held(heads)]
        rows = await lines.claim_lined_up(self.session, held, _PAGE) if held else []
        ids = self._alike(rows)
        if len(rows) == _PAGE and ids:
            self.lane.rewind()  # the same lines may have more events
        return ids, True

    def _alike(self, rows: list[ClaimedEvent]) -> list[int]:
        """Of each line, the leading events of this type that have waited for the grace."""
        type_, grace = self.lane.key[1], self.judgement.grace.total_seconds()
        by_line = dict[int, list[ClaimedEvent]]()
        for row in rows:
            by_line.setdefault(row["lane"], []).append(row)
        return [
            row["id"]
            for line in by_line.values()
            for row in takewhile(
                lambda row: row["type"] == type_ and row["ready"] and row["waited"] >= grace, line
            )
        ]

    async def _next(self) -> list[Head]:
        heads = await lines.due_heads(self.session, [self.lane], _PAGE)
        if heads:
            self.lane.advance(heads[-1].run_at, heads[-1].id)
        return heads

    async def _held(self, heads: list[Head]) -> list[Head]:
        buckets = sorted({(head.line.topic, head.line.bucket) for head in heads})
        had = set(await lines.try_buckets(self.session, buckets))
        return [head for head in heads if (head.line.topic, head.line.bucket) in had]
