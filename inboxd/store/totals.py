"""Counts of unsettled rows, up to a bound."""

from collections import Counter
from typing import NamedTuple

from inboxd.model.lifecycle import Status
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable


class HotRows(NamedTuple):
    """Rows by status, waiting ones as pending; looked: the number of rows that were read."""

    statuses: Counter[Status]
    looked: int


async def hot(
    session: Session, table: HotTable, type_: str | None, tenant: str | None, most: int
) -> HotRows:
    """Read at most the `most` oldest rows; count those of one or all types and tenants."""
    row = await session.one(f"count_hot_{table}", type_, tenant, most)
    statuses = Counter(
        {
            Status.PENDING: row["pending"],
            Status.RUNNING: row["processing"],
            Status.FAILED: row["failed"],
        }
    )
    return HotRows(statuses, row["looked"])


async def events_in_hand(session: Session) -> int:
    """Events that living workers are running, by their last heartbeats."""
    return int(await session.fetchval("count_events_in_hand"))
