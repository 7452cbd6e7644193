"""What happens now: rows that are written, attempts that fail, rows that end, look by look.

Owns what counts as news between two looks. Promises: what is told once is not told again; a look
reads so many rows at most, and says where there were more. Known limits: what began and ended
between two looks is told as both; a row that fails several times between two is told of once; what
commits longer than `_LATE` after it was created is told of when it ends.
*See:* `finding.py`, by which each look finds; `cli/tail.py`, which asks again and again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from inboxd.model.lifecycle import Status
from inboxd.operations import finding
from inboxd.store.finding import Filter, When
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Rows that a look tells of, of each table and way.
MOST = 200
_TABLES: tuple[HotTable, ...] = ("events", "commands")
_WAYS: tuple[When, ...] = ("created", "done")
# A row is seen when it commits, which is later than its time.
_LATE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class TailNews:
    """One thing that happened: `what` is written, tried again, failed, or how it ended."""

    at: datetime
    kind: str
    what: str
    row: dict[str, Any]

    @property
    def key(self) -> tuple[object, ...]:
        """By which it is told once: an attempt of a row is one thing, its being written another."""
        attempt = 0 if self.what == "written" else self.row["attempts"]
        return self.kind, self.row["id"], self.what, attempt

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"at": self.at, "kind": self.kind, "what": self.what, **self.row}


class Tail:
    """Looks at what has happened since the last look."""

    def __init__(self, wanted: Filter, tables: Sequence[HotTable] = _TABLES) -> None:
        """Of rows that match; its times are the tail's."""
        self._wanted = wanted
        self._tables = tables
        self._since: datetime | None = None
        # What was told of lately, and when it was seen.
        self._told: dict[tuple[object, ...], datetime] = {}

    async def look(self, session: Session) -> tuple[list[TailNews], bool]:
        """What is new since the last look, the oldest first; and whether there was more.

        The first look only remembers what is there.
        """
        now: datetime = await session.fetchval("database_time")
        is_first, since = self._since is None, self._since or now
        self._since = now
        found: list[TailNews] = []
        cut = False
        for table in self._tables:
            for by in _WAYS:
                wanted = replace(self._wanted, by=by, since=since - _LATE, until=None)
                page = await finding.find(session, table, wanted, limit=MOST)
                cut |= len(page.rows) == MOST
                found += [_news(table, by, row, now) for row in page.rows]
        fresh = [each for each in found if each.key not in self._told]
        self._told |= {each.key: now for each in found}
        self._told = {key: seen for key, seen in self._told.items() if seen > now - 4 * _LATE}
        if is_first:
            return [], False
        return sorted(fresh, key=lambda each: (each.at, each.row["id"])), cut


def _news(table: HotTable, by: When, row: dict[str, Any], now: datetime) -> TailNews:
    kind = table.removesuffix("s")
    if by == "created":
        return TailNews(row["created_at"], kind, "written", row)
    if row["status"] in (Status.PENDING, Status.WAITING, Status.RUNNING):
        return TailNews(now, kind, "tried again", row)
    return TailNews(row["finished_at"] or now, kind, str(row["status"]), row)
