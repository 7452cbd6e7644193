"""The daily statement: what was received on a day from a source, and what became of it, added up.

Owns the sum, *received = duplicates + succeeded + dead + dismissed + cancelled + erased + still
open*, and the names of what may not add up. Promises that a day's rows are taken as received when
it is closed, and never again: so what is missing later is a difference, and so is what there is too
much. Known limit: what was lost before its day was closed is known for what has another witness:
webhooks their receipts, streams of brokers their positions.
*See:* `inboxd.maintenance.daily_statement`, which makes it; docs/statement.md.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final, NamedTuple

# What becomes of an event, in the order of the sum.
FATES: Final = ("succeeded", "dead", "dismissed", "cancelled", "erased", "open")
# Of history: a dead letter that was sent again as a new row is one still.
_FATE_OF: Final = {"failed": "dead"}
# More sources than are told apart.
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
# What happens at a moment: it stays until its day's statement goes.
ONCE: Final = (POSITION_GONE_BACK, OLDER_STATE, ANOTHER_DATABASE, ANOTHER_TIMELINE)


class LineKey(NamedTuple):
    """What a line is of. source: '' where the producer names none."""

    day: date
    source: str


Fates = dict[LineKey, Counter[str]]


@dataclass(slots=True)
class StatementLine:
    """A day and a source. counted: when the day was closed, without what had moved until then."""

    counted: int
    received: int
    duplicates: int
    fates: Counter[str] = field(default_factory=Counter)

    @property
    def difference(self) -> int:
        """What is missing; less than 0: what there is too much."""
        return self.received - self.duplicates - self.fates.total()


class StatementFinding(NamedTuple):
    """Something that does not add up. source: '' where it is none's alone."""

    day: date
    source: str
    what: str
    rows: int
    detail: str


def fate_of(status: str) -> str:
    """What a row of history counts as."""
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
    """The lines of days that are closed, or are now.

    counted: of those that are. moves: by how many rows events became more since they came.
    """
    found: dict[LineKey, StatementLine] = {}
    for key in sorted({*counted, *fates, *moves, *duplicates}):
        if key.day not in closed and key.day not in closing:
            continue
        became, moved, again = fates.get(key, Counter()), moves.get(key, 0), duplicates.get(key, 0)
        first = became.total() - moved if key.day in closing else counted.get(key, 0)
        found[key] = StatementLine(first, first + moved + again, again, became)
    return found


def differences(lines: Mapping[LineKey, StatementLine]) -> Iterator[StatementFinding]:
    """The lines that do not add up."""
    for key, line in lines.items():
        if line.difference > 0:
            told = "were received, and are nowhere now: deleted, or an older state was restored"
            yield StatementFinding(*key, MISSING, line.difference, told)
        elif line.difference < 0:
            told = "are there beside those that were received: an older state was restored"
            yield StatementFinding(*key, TOO_MANY, -line.difference, told)
