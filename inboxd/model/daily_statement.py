"""The daily statement: for each source, a day's received events and their fates, added up.

The sum: *received = duplicates + succeeded + dead + dismissed + cancelled + erased + still open*.
The received rows of a day are counted once, when it is closed: rows missing later are a difference,
and so are surplus rows. Known limit: a row that was lost before its day was closed is known only
through another record: receipts of webhooks, positions of streams (docs/statement.md).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final, NamedTuple

# The fates of an event, in the order of the sum.
FATES: Final = ("succeeded", "dead", "dismissed", "cancelled", "erased", "open")
# The fate of a status in history: a dead letter that was sent again as a new row is still a dead
# letter.
_FATE_OF: Final = {"failed": "dead"}
# Stands for all sources beyond the maximum number of named sources.
OTHER: Final = "(other)"

MISSING: Final = "rows_missing"
TOO_MANY: Final = "rows_too_many"
RECEIPTS_MISSING: Final = "receipts_missing"
EVENTS_WITHOUT_RECEIPT: Final = "events_without_receipt"
RECEIPTS_WITHOUT_EVENTS: Final = "receipts_without_events"
PARTITION_GONE: Final = "partition_gone"
SPOOL_LEFT: Final = "spool_left"
POSITION_GONE_BACK: Final = "position_gone_back"
OLDER_STATE: Final = "older_state"
ANOTHER_DATABASE: Final = "another_database"
ANOTHER_TIMELINE: Final = "another_timeline"
# Findings of a single moment: they stay until the statement of their day is dropped.
ONCE: Final = (POSITION_GONE_BACK, OLDER_STATE, ANOTHER_DATABASE, ANOTHER_TIMELINE)


class LineKey(NamedTuple):
    """The day and source of a line. source: '' if the producer names none."""

    day: date
    source: str


Fates = dict[LineKey, Counter[str]]


@dataclass(slots=True)
class StatementLine:
    """The line of a day and a source. counted: rows at its closing, less the moves until then."""

    counted: int
    received: int
    duplicates: int
    fates: Counter[str] = field(default_factory=Counter)

    @property
    def difference(self) -> int:
        """The number of missing rows; negative: the number of surplus rows."""
        return self.received - self.duplicates - self.fates.total()


class StatementFinding(NamedTuple):
    """A finding of the statement. source: '' if it is not of a single source."""

    day: date
    source: str
    what: str
    rows: int
    detail: str


def fate_of(status: str) -> str:
    return _FATE_OF.get(status, status)


def add_up(
    closed: Collection[date],
    closing: Collection[date],
    *,
    counted: Mapping[LineKey, int],
    fates: Fates,
    moves: Mapping[LineKey, int],
    duplicates: Mapping[LineKey, int],
) -> dict[LineKey, StatementLine]:
    """moves: rows by which the received events became more later."""
    found: dict[LineKey, StatementLine] = {}
    for key in sorted({*counted, *fates, *moves, *duplicates}):
        if key.day not in closed and key.day not in closing:
            continue
        became, moved, again = fates.get(key, Counter()), moves.get(key, 0), duplicates.get(key, 0)
        first = became.total() - moved if key.day in closing else counted.get(key, 0)
        found[key] = StatementLine(first, first + moved + again, again, became)
    return found


def differences(lines: Mapping[LineKey, StatementLine]) -> Iterator[StatementFinding]:
    for key, line in lines.items():
        if line.difference > 0:
            told = "were received and are missing now: deleted, or an older state was restored"
            yield StatementFinding(*key, MISSING, line.difference, told)
        elif line.difference < 0:
            told = "exist in addition to the received rows: an older state was restored"
            yield StatementFinding(*key, TOO_MANY, -line.difference, told)
