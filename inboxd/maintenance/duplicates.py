"""Reports events that were sent again: counts, logs and deletes the notes of duplicates.

Per topic and source, the first duplicates of a minute have one line each, and the further ones
share a line with their number at the minute's end (R1.16). At level debug each has its own line.
Known limit: a leader that ends in a flood does not log the number of the last minute.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import daily_statement, dedup, statistics
from inboxd.store.pools import transact
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

_PAGE = 1_000
_PAGES = 50
# Seconds for which lines are counted together, and number of single lines before.
_MINUTE, _FEW = 60.0, 10
# Topics and sources with counts of their own: producers choose the names. Further ones share a
# count.
_MOST = 100
_OTHER = "other"

# Topic, source, and whether the content differed from the first event's content.
_Kind = tuple[str, str, bool]


@dataclass(slots=True)
class _Fold:
    """Duplicates of one kind since `began`: number of logged ones, number of counted ones."""

    began: float
    told: int = 0
    folded: int = 0


class DuplicateLog:
    def __init__(self) -> None:
        self._folds: dict[_Kind, _Fold] = {}

    def tell(self, repeats: Sequence[dedup.Repeat]) -> None:
        now = monotonic()
        for repeat in repeats:
            fold = self._fold(repeat, now)
            log: Callable[..., Any] = _log.debug
            if fold.told < _FEW:
                fold.told += 1
                log = _log.warning if repeat.conflict else _log.info
            else:
                fold.folded += 1
            log(
                "a dedup key came again with other content" if repeat.conflict else "duplicate",
                topic=repeat.topic,
                source=repeat.source,
                key=repeat.key,
                event_id=str(repeat.event_id),
                first_event=str(repeat.first_event),
            )

    def end_minutes(self) -> None:
        now = monotonic()
        over = [kind for kind, fold in self._folds.items() if now - fold.began >= _MINUTE]
        for kind in over:
            fold = self._folds.pop(kind)
            if fold.folded:
                topic, source, conflict = kind
                log = _log.warning if conflict else _log.info
                what = "dedup keys that came again with other content" if conflict else "duplicates"
                log(
                    f"more {what}",
                    topic=topic,
                    source=source,
                    count=fold.folded,
                    seconds=round(now - fold.began),
                )

    def _fold(self, repeat: dedup.Repeat, now: float) -> _Fold:
        kind = (repeat.topic, repeat.source, repeat.conflict)
        if kind not in self._folds and len(self._folds) >= _MOST:
            kind = (_OTHER, _OTHER, repeat.conflict)
        return self._folds.setdefault(kind, _Fold(now))


class DuplicateReport:
    def __init__(self, context: MaintenanceContext) -> None:
        self._context = context
        self._lines = DuplicateLog()

    async def report(self) -> None:
        context = self._context
        for _ in range(_PAGES):
            async with transact(context.pool) as session:
                repeats = await dedup.drain(session, _PAGE)
                await statistics.write_events(session, "duplicate", _duplicates(repeats))
                again = [(each.ago, each.source) for each in repeats if not each.conflict]
                await daily_statement.keep_duplicates(session, again)
            _count(context.metrics, repeats)
            self._lines.tell(repeats)
            if len(repeats) < _PAGE:
                break
        self._lines.end_minutes()


def _count(metrics: Metrics, repeats: Sequence[dedup.Repeat]) -> None:
    for (topic, conflict), count in Counter((r.topic, r.conflict) for r in repeats).items():
        metrics.count_repeats(topic, count, conflict=conflict)


def _duplicates(repeats: Sequence[dedup.Repeat]) -> list[tuple[str, str, float, int]]:
    minutes: dict[tuple[str, str, float], list[float]] = defaultdict(list)
    for each in repeats:
        if not each.conflict:
            minutes[each.topic, each.type, each.ago // 60].append(each.ago)
    return [(topic, type_, min(ago), len(ago)) for (topic, type_, _), ago in minutes.items()]
