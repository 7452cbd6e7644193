"""Runs of commands of one ordering key that were leased together: one starts as another ends.

Owns what is leased of a key and has not started. Promises (promise 5) that of a strict key nothing
starts before what stood ahead of it has succeeded; when that did not, the rest of the run goes back
into its line, as if it had never been leased. A run may be lengthened while it goes on, so that
what comes next of its line is leased before the last of it ends; what is leased so after something
was taken out of the run stands behind that, and goes back as well. Known limit: a run is kept on
one worker, so a slow command holds up the rest of its run there; the rest is given back when that
lasts. Runs of commands that take longer than some milliseconds are short, and are not lengthened.
*See:* `runners`, which starts what this says.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

from inboxd.model.key_round_robin import RUN
from inboxd.store.rows import ClaimedCommand

# Seconds for which the rest of a run waits behind one command.
_TOO_LATE = 1.0


class QueueKey(NamedTuple):
    """An ordering key of a queue."""

    queue: str
    key: str


@dataclass(slots=True, eq=False)
class _Run:
    key: QueueKey
    strict: bool
    rest: deque[ClaimedCommand]
    started_at: float
    # How many rows it was given when it was last asked for.
    given: int
    # How many of its rows have started and not ended.
    running: int = 0
    # Nothing failed or was taken out of it: what stands behind it in its line is next.
    whole: bool = True

    @property
    def may_grow(self) -> bool:
        """Whether what comes next of its line may run after it, and is worth a claim of its own."""
        return self.strict and self.whole and self.given >= RUN


@dataclass(slots=True)
class KeyRuns:
    """All runs of a worker."""

    # How many of one key may run at a time, by queue.
    at_once: Callable[[str], int]
    # The run of each row that has started.
    _runs: dict[int, _Run] = field(default_factory=dict)
    # How many of each key run here.
    _running: Counter[QueueKey] = field(default_factory=Counter)
    # Runs for which more was asked; such a run waits for the answer even when it has nothing left.
    _expecting: dict[QueueKey, _Run] = field(default_factory=dict)
    # Runs that left a place of their key, with the number of outcomes handed over by then: their
    # keys are asked again once those are written. The numbers only grow.
    ended: deque[tuple[_Run, int]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def full(self, key: QueueKey) -> bool:
        """Whether so many of a key run here that no more may."""
        return self._running[key] >= self.at_once(key.queue)

    def begin(
        self, rows: Sequence[ClaimedCommand], handed_over: int
    ) -> tuple[list[ClaimedCommand], list[ClaimedCommand]]:
        """Runs of what was leased, in order, or more of those that expect it.

        Returns those that start at once, and those that go back into their lines. handed_over: how
        many outcomes were by now.
        """
        lines = defaultdict[tuple[str, str], deque[ClaimedCommand]](deque)
        for row in rows:
            lines[row["queue"], row["ordering_key"] or ""].append(row)
        first: list[ClaimedCommand] = []
        back: list[ClaimedCommand] = []
        for queue_and_key, line in lines.items():
            key = QueueKey(*queue_and_key)
            run = self._expecting.pop(key, None)
            if run is None:
                at_once = self.at_once(key.queue)
                run = _Run(key, at_once == 1, line, monotonic(), len(line))
                begun = min(at_once, len(line))
                self._running[key] += begun
                first += [self._start(run) for _ in range(begun)]
                continue
            if run.whole:
                run.rest.extend(line)
                run.given = len(line)
            else:
                back += line
            if not run.running:
                if run.rest:
                    first.append(self._start(run))
                else:
                    self._leave(run, handed_over + len(back))
        return first, back

    def expect(self, queue: str, left: int, most: int) -> list[str]:
        """So many keys whose runs may be lengthened, and wait for what comes from now on.

        They have at most so many rows left, or have ended and their outcomes are not written.
        """
        open_ = {run.key: run for run, _ in self.ended if not self._running[run.key]}
        open_ |= {run.key: run for run in self._all() if len(run.rest) <= left}
        chosen = [run for run in open_.values() if run.key.queue == queue and run.may_grow][:most]
        if not chosen:
            return []
        for run in chosen:
            self._expecting[run.key] = run
            if not run.running:
                self._running[run.key] += 1
        self.ended = deque(each for each in self.ended if each[0] not in chosen)
        return [run.key.key for run in chosen]

    def expect_no_more(self, handed_over: int) -> None:
        """Nothing comes for those that still wait, or an answer was lost.

        They are not lengthened any more: what a lost answer leased stands behind them.
        """
        while self._expecting:
            _, run = self._expecting.popitem()
            run.given = 0
            if not run.running:
                self._leave(run, handed_over)

    def end(
        self, row: ClaimedCommand, handed_over: int, *, well: bool
    ) -> tuple[ClaimedCommand | None, list[ClaimedCommand]]:
        """A row ended, well or not: what starts instead, and what goes back into its line.

        handed_over: how many outcomes were by now, that of this row among them; those that go back
        come next.
        """
        run = self._runs.pop(row["id"], None)
        if run is None:
            return None, []
        run.running -= 1
        back = []
        if run.strict and not well:
            run.whole = False
            back = _emptied(run)
        if run.rest:
            return self._start(run), back
        if self._expecting.get(run.key) is not run:
            self._leave(run, handed_over + len(back))
        return None, back

    def stale(self) -> list[ClaimedCommand]:
        """What has waited too long behind its run's first: it goes back into its line."""
        now = monotonic()
        runs = [run for run in self._all() if run.rest and now - run.started_at > _TOO_LATE]
        return [row for run in runs for row in _emptied(run)]

    def give_back(self, which: Callable[[ClaimedCommand], bool]) -> list[ClaimedCommand]:
        """Those of these rows that have not started, and what stands behind them."""
        back = []
        for run in self._all():
            kept = list(takewhile(lambda row: not which(row), run.rest))
            if len(kept) < len(run.rest):
                back += _emptied(run)[len(kept) :]
                run.rest.extend(kept)
        return back

    def remove(self, ids: frozenset[int]) -> list[ClaimedCommand]:
        """Those among these rows that have not started: they do not start any more."""
        removed = []
        for run in self._all():
            for row in [row for row in run.rest if row["id"] in ids]:
                run.rest.remove(row)
                removed.append(row)
        return removed

    def written(self, through: int) -> Iterator[QueueKey]:
        """The keys to ask again: the database knows by now that something of theirs has ended.

        through: how many of the outcomes that were handed over are written.
        """
        while self.ended and self.ended[0][1] <= through:
            yield self.ended.popleft()[0].key

    def _start(self, run: _Run) -> ClaimedCommand:
        row = run.rest.popleft()
        run.started_at = monotonic()
        run.running += 1
        self._runs[row["id"]] = run
        return row

    def _leave(self, run: _Run, handed_over: int) -> None:
        """One of a run's places is free: it has nothing left for it."""
        self._running[run.key] -= 1
        if not self._running[run.key]:
            del self._running[run.key]
        self.ended.append((run, handed_over))

    def _all(self) -> Iterable[_Run]:
        return {id(run): run for run in self._runs.values()}.values()


def _emptied(run: _Run) -> list[ClaimedCommand]:
    """Take out what has not started."""
    rows = list(run.rest)
    if rows:
        run.rest.clear()
        run.whole = False
    return rows
