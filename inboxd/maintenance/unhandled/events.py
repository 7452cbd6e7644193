"""Events that no living worker handles: kept, dead letters, or ignored on purpose (promise 10).

Kept events cost one query per topic and type; ignored events are counted when they end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from inboxd.maintenance.unhandled.judgement import Judgement, dead_letter, entry, unhandled_reason
from inboxd.settings import Unhandled
from inboxd.store import events, statistics, unhandled, workers
from inboxd.store.pools import lend, transaction
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 1_000

Pair = tuple[str, str]  # a topic and a type


class EventPages(Protocol):
    """Each call takes a page of a topic and type, and returns whether more may follow."""

    async def fail(self, error: str) -> tuple[int, bool]:
        """Make dead letters of the next page; returns their number."""

    async def take(self) -> tuple[list[int], bool]:
        """Lock the next page, unless a worker handles the events now; returns their ids."""


class EventChoice:
    def __init__(self, judgement: Judgement, of: Callable[[str], Unhandled]) -> None:
        """of: the setting by type."""
        self.judgement = judgement
        self._of = of
        self._logged = set[Pair]()

    async def settle(
        self, session: Session, due: Sequence[Pair], pages: Callable[[Pair], EventPages]
    ) -> int:
        """Apply the settings to due topics and types; returns the number of ended events."""
        self._log_kept({pair for pair in due if self._of(pair[1]) == "keep"})
        total = 0
        for pair in due:
            choice = self._of(pair[1])
            if choice == "dead":
                total += await self._fail(session, *pair, pages(pair))
            elif choice == "ignore":
                total += await self._ignore(session, *pair, pages(pair))
        return total

    def _log_kept(self, kept: set[Pair]) -> None:
        for topic, type_ in sorted(kept - self._logged):
            _log.warning(
                "no living worker handles these events: they are kept", topic=topic, type=type_
            )
        self._logged = kept

    async def _fail(self, session: Session, topic: str, type_: str, pages: EventPages) -> int:
        error = dead_letter("event", type_, topic)
        total = await self.judgement.each_page(session, lambda: pages.fail(error))
        if total:
            _log.error("no handler", kind="event", topic=topic, type=type_, dead_letters=total)
        return total

    async def _ignore(self, session: Session, topic: str, type_: str, pages: EventPages) -> int:
        context = self.judgement.context
        error = entry(
            f'Ignored: {unhandled_reason("event", type_, topic)}, and unhandled = "ignore"'
        )

        async def page() -> tuple[int, bool]:
            ids, more = await pages.take()
            if ids:
                gone = await events.ignore(session, ids, error)
                await statistics.write_events(session, "ignored", [(topic, type_, 0.0, gone)])
            return len(ids), more

        if total := await self.judgement.each_page(session, page):
            context.metrics.count_ignored(type_, total)
            _log.info(
                "ignored events that no living worker handles",
                topic=topic,
                type=type_,
                events=total,
            )
        return total


async def settle_events(choice: EventChoice) -> None:
    judgement, context = choice.judgement, choice.judgement.context
    async with lend(context.pool) as session:
        async with transaction(context.pool, session):
            seen = await events.survey(session)
            pairs = [(str(s.key[0]), str(s.key[1])) for s in seen]
            unhandled_pairs = await workers.unhandled(session, pairs)
        lost = [pair for pair in unhandled_pairs if judgement.is_open("topic", *pair)]

        def pages(pair: Pair) -> _LanePages:
            return _LanePages(session, pair, judgement.grace)

        await choice.settle(session, judgement.due(lost), pages)


@dataclass(frozen=True, slots=True)
class _LanePages:
    session: Session
    lane: Pair
    grace: timedelta

    async def fail(self, error: str) -> tuple[int, bool]:
        failed = await unhandled.fail(self.session, "events", self.lane, error, _PAGE, self.grace)
        return failed, failed == _PAGE

    async def take(self) -> tuple[list[int], bool]:
        ids = await events.stranded(self.session, self.lane, _PAGE, self.grace)
        return ids, len(ids) == _PAGE
