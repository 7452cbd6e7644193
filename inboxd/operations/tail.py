"""Changes of rows since the last look: rows that are written, attempts that fail, rows that end.

Promises: a change is reported once; a look reads a bounded number of rows. Known limits: several
failures between two looks are reported once; a row that commits later than `_LATE` after its
creation is reported only when it ends.
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

# The most rows that a look reads, per table and kind of change.
MOST = 200
_TABLES: tuple[HotTable, ...] = ("events", "commands")
_WAYS: tuple[When, ...] = ("created", "done")
# A row becomes visible when it commits, later than its creation time.
_LATE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class TailNews:
    """what: "written", "tried again", or the status in which it ended."""

    at: datetime
    kind: str
    what: str
    row: dict[str, Any]

    @property
    def key(self) -> tuple[object, ...]:
        attempt = 0 if self.what == "written" else self.row["attempts"]
        return self.kind, self.row["id"], self.what, attempt

    def document(self) -> dict[str, Any]:
        return {"at": self.at, "kind": self.kind, "what": self.what, **self.row}


class Tail:
    def __init__(self, wanted: Filter, tables: Sequence[HotTable] = _TABLES) -> None:
        """The filter's own times are replaced."""
        self._wanted = wanted
        self._tables = tables
        self._since: datetime | None = None
        # Changes that were reported lately, with the time of the look.
        self._reported: dict[tuple[object, ...], datetime] = {}

    async def look(self, session: Session) -> tuple[list[TailNews], bool]:
        """Rows, oldest first, and whether there are more. The first look returns no rows."""
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
        fresh = [each for each in found if each.key not in self._reported]
        reported = self._reported | {each.key: now for each in found}
        self._reported = {key: at for key, at in reported.items() if at > now - 4 * _LATE}
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
