"""Figures: measured in turns with their counterparts, printed as lines of a Markdown table."""

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

HEADER = (
    "| what | measured | compared with | ratio | target | reached "
    "| CPU µs per row: worker + server; counterpart |\n"
    "|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement; CPU microseconds per row where they were measured."""

    value: float
    worker: float | None = None
    server: float | None = None


Measure = Callable[[], Awaitable[Run]]


@dataclass(frozen=True, slots=True)
class Target:
    """The goal: a value, a share of the counterpart, or both; `most`: they are maximums."""

    value: float | None = None
    share: float | None = None
    most: bool = False

    def reached(self, value: float, ratio: float | None) -> bool:
        """Whether the figures reach all parts of the goal."""
        if self.value is not None and (value > self.value if self.most else value < self.value):
            return False
        if self.share is None:
            return True
        return ratio is not None and (ratio <= self.share if self.most else ratio >= self.share)

    def __str__(self) -> str:
        sign = "≤ " if self.most else ""
        parts = [] if self.value is None else [f"{sign}{number(self.value)}"]
        return ", ".join(parts + ([] if self.share is None else [f"ratio {sign}{self.share:.2f}"]))


@dataclass(slots=True)
class Line:
    """One figure: its runs, its counterpart's runs, and its goal."""

    what: str
    runs: list[Run]
    beside: str = ""
    others: list[Run] = field(default_factory=list)
    target: Target | None = None
    unit: str = "/s"

    @property
    def value(self) -> float:
        """The median of the runs."""
        return statistics.median(run.value for run in self.runs)

    @property
    def ratio(self) -> float | None:
        """The median of the turns' ratios; a turn whose counterpart was zero has none."""
        pairs = zip(self.runs, self.others, strict=False)
        ratios = [run.value / other.value for run, other in pairs if other.value]
        return statistics.median(ratios) if ratios else None

    def __str__(self) -> str:
        others = f"{self.beside} {_spread(self.others)}{self.unit}" if self.others else ""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        reached = ""
        if self.target is not None:
            reached = "yes" if self.target.reached(self.value, self.ratio) else "**no**"
        target = "" if self.target is None else str(self.target)
        measured = _spread(self.runs) + self.unit
        cpu = _cpu(self.runs)
        if beside := _cpu(self.others):
            cpu = f"{cpu}; {beside}"
        cells = (self.what, measured, others, ratio, target, reached, cpu)
        return f"| {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measurement, its counterpart in the same turns, and the goal."""

    what: str
    measure: Measure
    target: Target | None = None
    beside: str = ""
    other: Measure | None = None

    async def line(self, repeat: int) -> Line:
        """Measure both sides `repeat` times."""
        if self.other is None:
            runs, others = (await in_turns(repeat, self.measure))[0], []
        else:
            runs, others = await in_turns(repeat, self.measure, self.other)
        return Line(self.what, runs, self.beside, others, self.target)


async def in_turns(repeat: int, *sides: Measure) -> list[list[Run]]:
    """Measure the sides in turns, every other turn in reverse order; returns each side's runs."""
    runs: list[list[Run]] = [[] for _ in sides]
    for turn in range(repeat):
        order = range(len(sides))
        for side in reversed(order) if turn % 2 else order:
            runs[side].append(await sides[side]())
    return runs


def number(value: float) -> str:
    """At least three digits, with separators."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _spread(runs: Sequence[Run]) -> str:
    values = sorted(run.value for run in runs)
    median = number(statistics.median(values))
    return median if len(values) == 1 else f"{median} ({number(values[0])} to {number(values[-1])})"


def _cpu(runs: Sequence[Run]) -> str:
    sides = ([run.worker for run in runs], [run.server for run in runs])
    known = [[value for value in side if value is not None] for side in sides]
    return " + ".join(f"{statistics.median(side):.1f}" for side in known if side)
