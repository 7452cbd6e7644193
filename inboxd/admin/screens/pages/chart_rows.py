"""Links from a chart to its rows: for each step, and for each number of its table.

Promises that a list shows just the counted rows of its step. Known limits: a row at the edge of a
minute may be listed in the next; failed attempts are one list, whether they were the last or not,
with at most the newest 50 of a row; rows that history no longer keeps are counted, but not listed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from starlette.datastructures import QueryParams

from inboxd.admin.screens.charts import Curve
from inboxd.admin.screens.formatting import moment, number
from inboxd.store.finding import When

# Makes the address of a list, with some values of its query changed.
Address = Callable[..., str]

# Filters for the rows that a number counts: successes, failed attempts, waiting rows, and rows that
# are still dead letters.
DONE: Final[Mapping[str, str | None]] = {"by": "ended", "status": "succeeded"}
FAILED: Final[Mapping[str, str | None]] = {"by": "failed"}
WAITING: Final[Mapping[str, str | None]] = {"by": "waiting"}
DEAD: Final[Mapping[str, str | None]] = {"by": "ended", "status": "failed", "since": None}
# The filters of curves whose rows are in the list of a step.
_IN_STEPS: Final[Mapping[When | None, Sequence[str | None]]] = {
    "done": ("ended", "failed"),
    "waiting": ("waiting",),
    None: (None,),
}
# The filters of a list that its charts follow, too.
_FOLLOWED: Final = frozenset({"type", "tenant", "limit"})


def followed(query: QueryParams) -> list[tuple[str, str]]:
    """Leave out the filters that the list's charts do not follow."""
    return [(name, value) for name, value in query.multi_items() if name in _FOLLOWED]


@dataclass(frozen=True, slots=True)
class ChartRows:
    """of: an address for each list (events, commands). by: for whole steps.

    ids: the smallest and largest of each step, for lists not found by time; None: it has no rows.
    """

    steps: Sequence[datetime]
    of: Mapping[str, Address]
    by: When | None = "done"
    ids: Sequence[tuple[int, int] | None] = ()

    def at(self, place: int, curves: Sequence[Curve]) -> str | None:
        """The list with the rows at a point; of two lists, the longer one. None: no rows."""

        def counted(table: str) -> float:
            parts = (self._part(table, curve) for curve in curves)
            return sum(values[place] or 0 for values in parts if values is not None)

        table = max(self.of, key=counted)
        return self._address(table, place, {"by": self.by}) if counted(table) else None

    def _part(self, table: str, curve: Curve) -> Sequence[float | None] | None:
        if len(self.of) > 1:
            return curve.of.get(table)
        shown = curve.rows is not None and curve.rows.get("by") in _IN_STEPS[self.by]
        return curve.values if shown else None

    def numbers(self, curve: Curve, place: int) -> list[tuple[str, str, str]]:
        """Each has the number, the list, the address."""
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
        changed: dict[str, Any] = dict.fromkeys(("status", "by", "above", "below", "span"))
        changed |= {"since": moment(since), "until": moment(until), **wanted}
        if self.ids and (ends := self.ids[place]):
            changed |= {"above": ends[0] - 1, "below": ends[1] + 1}
        return self.of[table](**changed)
