"""Runs of commands of one ordering key that were leased together: one starts as another ends.

Owns what is leased of a key and has not started. Promises (promise 5) that of a strict key nothing
starts before what stood ahead of it has succeeded; when that did not, the rest of the run goes back
into its line, as if it had never been leased. Known limit: a run is kept on one worker, so a slow
command holds up the rest of its run there; the rest is given back when that lasts.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

from inboxd.store.connections import Row

# Seconds for which the rest of a run waits behind one command.
_TOO_LATE = 1.0


class Key(NamedTuple):
    """An ordering key of a queue."""

    queue: str
    key: str


@dataclass(slots=True, eq=False)
class _Run:
    key: Key
    strict: bool
    rest: deque[Row]
    started_at: float


@dataclass(slots=True)
class Chains:
    """All runs of a worker."""

    # The run of each row that has started.
    _runs: dict[int, _Run] = field(default_factory=dict)
    # How many of each key run here.
    _running: Counter[Key] = field(default_factory=Counter)
    # Keys that have room since something of theirs ended, with the number of outcomes handed over
    # by then: they are asked again once those are written. The numbers only grow.
    ended: deque[tuple[Key, int]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def full(self, key: Key, at_once: int) -> bool:
        """Whether so many of a key run here that no more may."""
        return self._running[key] >= at_once

    def begin(self, rows: Sequence[Row], at_once: int) -> list[Row]:
        """Runs of what was leased of one queue, in order; those that start at once."""
        lines: dict[str, deque[Row]] = {}
        for row in rows:
            lines.setdefault(row["ordering_key"], deque()).append(row)
        first: list[Row] = []
        for name, line in lines.items():
            run = _Run(Key(line[0]["queue"], name), at_once == 1, line, monotonic())
            begun = min(at_once, len(line))
            self._running[run.key] += begun
            first += [self._start(run) for _ in range(begun)]
        return first

    def end(self, row: Row, handed_over: int, *, well: bool) -> tuple[Row | None, list[Row]]:
        """A row ended, well or not: what starts instead, and what goes back into its line.

        handed_over: how many outcomes were by now, that of this row among them.
        """
        run = self._runs.pop(row["id"], None)
        if run is None:
            return None, []
        back = [] if well or not run.strict else _emptied(run.rest)
        if run.rest:
            return self._start(run), back
        self._running[run.key] -= 1
        if not self._running[run.key]:
            del self._running[run.key]
        self.ended.append((run.key, handed_over))
        return None, back

    def stale(self) -> list[Row]:
        """What has waited too long behind its run's first: it goes back into its line."""
        now = monotonic()
        runs = [run for run in self._all() if run.rest and now - run.started_at > _TOO_LATE]
        return [row for run in runs for row in _emptied(run.rest)]

    def give_back(self, which: Callable[[Row], bool]) -> list[Row]:
        """Those of these rows that have not started, and what stands behind them."""
        back = []
        for run in self._all():
            rows = _emptied(run.rest)
            kept = list(takewhile(lambda row: not which(row), rows))
            run.rest.extend(kept)
            back += rows[len(kept) :]
        return back

    def remove(self, ids: frozenset[int]) -> list[Row]:
        """Those among these rows that have not started: they do not start any more."""
        removed = []
        for run in self._all():
            for row in [row for row in run.rest if row["id"] in ids]:
                run.rest.remove(row)
                removed.append(row)
        return removed

    def written(self, through: int) -> Iterator[Key]:
        """The keys to ask again: the database knows by now that something of theirs has ended.

        through: how many of the outcomes that were handed over are written.
        """
        while self.ended and self.ended[0][1] <= through:
            yield self.ended.popleft()[0]

    def _start(self, run: _Run) -> Row:
        row = run.rest.popleft()
        run.started_at = monotonic()
        self._runs[row["id"]] = run
        return row

    def _all(self) -> Iterable[_Run]:
        return {id(run): run for run in self._runs.values()}.values()


def _emptied(rest: deque[Row]) -> list[Row]:
    rows = list(rest)
    rest.clear()
    return rows
