"""Runs of keys: commands of one ordering key that were leased together start one after the other.

A command of a strict key starts only after the command ahead of it has succeeded; otherwise the
rest of the run returns to its line, as if never leased (promise 5). The next commands of its line
are leased before its last command ends; if commands were removed meanwhile, the new ones return as
well. Known limit: a run stays on one worker, so a slow command delays the remaining ones; after a
while they are given back. Only runs of quick commands are long. *See:* `runners`, which starts
these rows.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

from inboxd.model.key_round_robin import RUN
from inboxd.store.rows import ClaimedCommand

# Seconds for which the remaining commands of a run may wait behind one command.
_TOO_LATE = 1.0


class QueueKey(NamedTuple):
    queue: str
    key: str


@dataclass(slots=True, eq=False)
class _Run:
    key: QueueKey
    strict: bool
    rest: deque[ClaimedCommand]
    started_at: float
    # Number of rows that the last claim brought for the run.
    given: int
    # Number of its rows that run.
    running: int = 0
    # False once a row failed or was removed: later commands of the line cannot follow.
    whole: bool = True

    @property
    def may_grow(self) -> bool:
        """Whether the line's next commands may follow this run, and are worth a claim."""
        return self.strict and self.whole and self.given >= RUN


@dataclass(slots=True)
class KeyRuns:
    # How many commands of one key may run at a time, by queue.
    at_once: Callable[[str], int]
    # The run of each running row, by the row's id.
    _runs: dict[int, _Run] = field(default_factory=dict)
    # Number of running commands by key.
    _running: Counter[QueueKey] = field(default_factory=Counter)
    # Runs for which more rows are being claimed; such a run waits for the answer even without rows.
    _expecting: dict[QueueKey, _Run] = field(default_factory=dict)
    # Runs that freed a place of their key, with the number of outcomes handed over by then: the key
    # is asked again when these outcomes are written. The numbers only grow.
    ended: deque[tuple[_Run, int]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def full(self, key: QueueKey) -> bool:
        return self._running[key] >= self.at_once(key.queue)

    def begin(
        self, rows: Sequence[ClaimedCommand], handed_over: int
    ) -> tuple[list[ClaimedCommand], list[ClaimedCommand]]:
        """Lengthen runs that expect rows. Returns rows that start, and rows for their lines.

        handed_over: the number of outcomes by now.
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
        """Keys of runs with at most `left` rows, or with unwritten outcomes; they expect rows."""
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
        """Expecting runs are not lengthened any more: rows of a lost answer stand behind them."""
        while self._expecting:
            _, run = self._expecting.popitem()
            run.given = 0
            if not run.running:
                self._leave(run, handed_over)

    def end(
        self, row: ClaimedCommand, handed_over: int, *, well: bool
    ) -> tuple[ClaimedCommand | None, list[ClaimedCommand]]:
        """Returns the row that starts next, and rows that go back into their line.

        well: it succeeded. handed_over: with this row's outcome, before those of rows that go back.
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
        """Remove rows that have waited too long behind a row of their run."""
        now = monotonic()
        runs = [run for run in self._all() if run.rest and now - run.started_at > _TOO_LATE]
        return [row for run in runs for row in _emptied(run)]

    def give_back(self, which: Callable[[ClaimedCommand], bool]) -> list[ClaimedCommand]:
        """Remove these rows, if they have not started, and the rows behind them."""
        back = []
        for run in self._all():
            kept = list(takewhile(lambda row: not which(row), run.rest))
            if len(kept) < len(run.rest):
                back += _emptied(run)[len(kept) :]
                run.rest.extend(kept)
        return back

    def remove(self, ids: frozenset[int]) -> list[ClaimedCommand]:
        removed = []
        for run in self._all():
            for row in [row for row in run.rest if row["id"] in ids]:
                run.rest.remove(row)
                removed.append(row)
        return removed

    def written(self, through: int) -> Iterator[QueueKey]:
        """Keys to ask again. through: number of written outcomes."""
        while self.ended and self.ended[0][1] <= through:
            yield self.ended.popleft()[0].key

    def _start(self, run: _Run) -> ClaimedCommand:
        row = run.rest.popleft()
        run.started_at = monotonic()
        run.running += 1
        self._runs[row["id"]] = run
        return row

    def _leave(self, run: _Run, handed_over: int) -> None:
        """Free the place of an ended row, since its run has no further row to start."""
        self._running[run.key] -= 1
        if not self._running[run.key]:
            del self._running[run.key]
        self.ended.append((run, handed_over))

    def _all(self) -> Iterable[_Run]:
        return {id(run): run for run in self._runs.values()}.values()


def _emptied(run: _Run) -> list[ClaimedCommand]:
    rows = list(run.rest)
    if rows:
        run.rest.clear()
        run.whole = False
    return rows
