"""Runs of keys: commands of one ordering key that were leased together start one after the other.

Owns the commands of keys that are leased and have not started. Promises (promise 5) that a command
of a strict key starts only after the command ahead of it has succeeded; if that one did not
succeed, the remaining commands of the run return to their line, as if they had never been leased. A
run may be lengthened: the next commands of its line are leased before its last command ends. If
commands were removed from the run before that claim's answer, the new commands stand behind them,
and return as well. Known limit: a run stays on one worker, so a slow command delays the remaining
ones; after a while they are given back. Runs of commands that take longer than some milliseconds
are short, and are not lengthened. *See:* `runners`, which starts these rows.
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
        """Whether no more commands of a key may run here."""
        return self._running[key] >= self.at_once(key.queue)

    def begin(
        self, rows: Sequence[ClaimedCommand], handed_over: int
    ) -> tuple[list[ClaimedCommand], list[ClaimedCommand]]:
        """Begin runs with leased rows, which are in order, or lengthen the runs that expect them.

        Returns rows that start at once, and rows that go back into their lines. handed_over: the
        number of outcomes by now.
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
        """At most `most` keys of a queue whose runs may be lengthened; they expect the next rows.

        These runs have at most `left` rows left, or have ended with outcomes not yet written.
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
        """The claim brought nothing for the runs that still expect rows, or its answer was lost.

        They are not lengthened any more: rows of a lost answer stand behind them.
        """
        while self._expecting:
            _, run = self._expecting.popitem()
            run.given = 0
            if not run.running:
                self._leave(run, handed_over)

    def end(
        self, row: ClaimedCommand, handed_over: int, *, well: bool
    ) -> tuple[ClaimedCommand | None, list[ClaimedCommand]]:
        """A row ended; returns the row that starts next, and rows that go back into their line.

        well: it succeeded. handed_over: the number of outcomes by now, with this row's; those of
        the rows that go back come next.
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
        """Remove the given rows that have not started."""
        removed = []
        for run in self._all():
            for row in [row for row in run.rest if row["id"] in ids]:
                run.rest.remove(row)
                removed.append(row)
        return removed

    def written(self, through: int) -> Iterator[QueueKey]:
        """Keys to ask again: the outcomes of their ended runs are written.

        through: number of written outcomes.
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
        """Free the place of an ended row, since its run has no further row to start."""
        self._running[run.key] -= 1
        if not self._running[run.key]:
            del self._running[run.key]
        self.ended.append((run, handed_over))

    def _all(self) -> Iterable[_Run]:
        return {id(run): run for run in self._runs.values()}.values()


def _emptied(run: _Run) -> list[ClaimedCommand]:
    """Remove all rows that have not started."""
    rows = list(run.rest)
    if rows:
        run.rest.clear()
        run.whole = False
    return rows
