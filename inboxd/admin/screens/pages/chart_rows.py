"""Where the rows of a chart are: of each of its moments, and of each number of its table.

Promises that an address names the moment and what was counted in it, so that its list looks for
these rows, whatever else a table has. Known limits: what was done is counted by the minute in which
a worker saw it end, so a row at the edge of one may be in the next; attempts that failed are one
list, whether they were the last or not, of a row that failed often the newest 50; a row is listed
once.
*See:* `charts.py`, which draws; `store/finding.py`, whose filter says what happened when.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from inboxd.admin.screens.charts import Curve
from inboxd.admin.screens.formatting import moment, number
from inboxd.store.finding import When

# Of a list: its path and query, with some values changed.
Address = Callable[..., str]

# How a list is asked for what a number counts: successes, attempts that failed, what stood there,
# and dead letters, those that are dead still.
DONE: Final[Mapping[str, str | None]] = {"by": "ended", "status": "succeeded"}
FAILED: Final[Mapping[str, str | None]] = {"by": "failed"}
WAITING: Final[Mapping[str, str | None]] = {"by": "waiting"}
DEAD: Final[Mapping[str, str | None]] = {"by": "ended", "status": "failed", "since": None}


@dataclass(frozen=True, slots=True)
class ChartRows:
    """The rows of one chart. of: the address of each list that they may be in; by: of a moment."""

    steps: Sequence[datetime]
    of: Mapping[str, Address]
    by: When = "done"

    def at(self, place: int, curves: Sequence[Curve]) -> str:
        """Those of a moment: where there are several lists, the one with the most."""

        def counted(table: str) -> float:
            values = (curve.of[table][place] for curve in curves if table in curve.of)
            return sum(value or 0 for value in values)

        table = max(self.of, key=counted) if len(self.of) > 1 else next(iter(self.of))
        return self._address(table, place, {"by": self.by})

    def numbers(self, curve: Curve, place: int) -> list[tuple[str, str, str]]:
        """Those that one number counts, list by list: the number, the list, its address."""
        if curve.rows is None or curve.values[place] is None:
            return []
        if len(self.of) == 1:
            (table,) = self.of
            told = number(curve.values[place])
            return [(told, table, self._address(table, place, curve.rows))]
        parts = [(table, curve.of[table][place]) for table in self.of if table in curve.of]
        return [
            (number(value), table, self._address(table, place, curve.rows))
            for table, value in parts
            if value
        ]

    def _address(self, table: str, place: int, wanted: Mapping[str, str | None]) -> str:
        since = self.steps[place]
        until = since + (self.steps[1] - self.steps[0])
        changed: dict[str, Any] = dict.fromkeys(("status", "by", "below", "span"))
        changed |= {"since": moment(since), "until": moment(until), **wanted}
        return self.of[table](**changed)
