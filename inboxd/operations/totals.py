"""Totals of events, commands, batches or workflows, by type and tenant, for tables of any size.

Finished days come from the census; a day without one, such as today, is counted up to a bound,
beyond which its successes come from statistics. Promises that all numbers are of one moment, and
that every read is bounded. Known limits: statistics lack operators' dismissals and the last seconds
of a killed worker; rows that were dropped or trimmed with their day are in no total.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from enum import StrEnum
from typing import Any, NamedTuple

from inboxd.model.lifecycle import Status
from inboxd.store import batch_totals, census, statistics, totals
from inboxd.store.census import UncountedDay
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# The most rows that are counted: unsettled ones; settled ones of days without a census, and changes
# of batches that are not added up.
COUNTED = 10_000
_LOOKED = 20_000
# Days without a census that are counted; there are more only for a while after an upgrade.
_DAYS = 3


class Exactness(StrEnum):
    """about: a little more or less; at_least: there may be many more."""

    EXACT = "exact"
    ABOUT = "about"
    AT_LEAST = "at_least"


# Best first: a sum from which rows may be missing does not estimate the whole.
_WORST = (Exactness.EXACT, Exactness.ABOUT, Exactness.AT_LEAST)


class Number(NamedTuple):
    value: int
    exactness: Exactness = Exactness.EXACT

    def plus(self, other: "Number") -> "Number":
        """The sum has the worse exactness."""
        worst = max(self.exactness, other.exactness, key=_WORST.index)
        return Number(self.value + other.value, worst)

    def document(self) -> dict[str, Any]:
        return {"rows": self.value, "exactness": self.exactness}


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of rows by outcome.

    pending: not started, or to be retried. processing: of events, by workers' last reports (None:
    unknown by type or tenant). replayed: dead letters that were sent again as new rows.
    days_without_census: finished days only.
    """

    total: Number
    pending: Number
    processing: Number | None
    errors: Number
    successes: Number
    cancelled: Number
    dismissed: Number
    replayed: Number
    days_without_census: int


async def count_all(
    session: Session, table: HotTable, *, type_: str | None = None, tenant: str | None = None
) -> Totals:
    async with session.reading(snapshot=True):
        settled, without = await _settled(session, table, type_, tenant)
        unsettled = await _unsettled(session, table, type_, tenant)
        processing: Number | None = unsettled[Status.RUNNING]
        if table == "events":
            is_known = type_ is None and tenant is None
            processing = await _events_in_hand(session) if is_known else None
    return Totals(
        total=add([*unsettled.values(), *settled.values()]),
        pending=unsettled[Status.PENDING],
        processing=processing,
        errors=unsettled[Status.FAILED],
        successes=settled[Status.SUCCEEDED],
        cancelled=settled[Status.CANCELLED],
        dismissed=settled[Status.DISMISSED],
        replayed=settled[Status.FAILED],
        days_without_census=without,
    )


async def count_batches(
    session: Session, kind: str | None, *, type_: str | None = None, tenant: str | None = None
) -> dict[str, Number]:
    counted = await batch_totals.read(session, kind, type_, tenant, _LOOKED + 1)
    # A change that was not read may add a batch, or remove one.
    how = Exactness.EXACT if counted.looked <= _LOOKED else Exactness.ABOUT
    return {status: Number(max(0, rows), how) for status, rows in counted.statuses.items()}


def add(numbers: Iterable[Number]) -> Number:
    """The sum has the worst exactness."""
    total = Number(0)
    for each in numbers:
        total = total.plus(each)
    return total


async def _events_in_hand(session: Session) -> Number:
    found = await totals.events_in_hand(session)
    return Number(found, Exactness.ABOUT)


async def _unsettled(
    session: Session, table: HotTable, type_: str | None, tenant: str | None
) -> dict[Status, Number]:
    looked = await totals.hot(session, table, type_, tenant, COUNTED + 1)
    how = Exactness.EXACT if looked.looked <= COUNTED else Exactness.AT_LEAST
    return {status: Number(rows, how) for status, rows in looked.statuses.items()}


async def _settled(
    session: Session, table: HotTable, type_: str | None, tenant: str | None
) -> tuple[dict[Status, Number], int]:
    """Return the number of finished days without a census, too."""
    counted = await census.total(session, table, type_, tenant)
    how = Exactness.AT_LEAST if counted.untold else Exactness.EXACT
    found = {status: Number(rows, how) for status, rows in counted.statuses.items()}
    days = await census.uncounted(session)
    mine = [day for day in reversed(days) if day.table == table]
    room = _LOOKED
    for day in mine[:_DAYS]:
        looked, read = await census.look(session, day, type_, tenant, room + 1)
        is_whole = read <= room
        room = max(0, room - read)
        numbers = (
            _exactly(looked) if is_whole else await _about(session, day, looked, type_, tenant)
        )
        found = {status: found[status].plus(numbers[status]) for status in found}
    if len(mine) > _DAYS:
        more = Number(0, Exactness.AT_LEAST)
        found = {status: number.plus(more) for status, number in found.items()}
    return found, sum(day.over for day in mine)


def _exactly(looked: Counter[Status]) -> dict[Status, Number]:
    return {status: Number(rows) for status, rows in looked.items()}


async def _about(
    session: Session,
    day: UncountedDay,
    looked: Counter[Status],
    type_: str | None,
    tenant: str | None,
) -> dict[Status, Number]:
    """Estimate a day that is too large to count: its successes by statistics."""
    of = statistics.FigureFilter(kind=day.table[:-1], type=type_, tenant=tenant)
    low, high = day.low.astimezone(UTC), day.high.astimezone(UTC)
    figures = await statistics.read(session, "hours", low, high, apart=(), of=of)
    numbers = {status: Number(rows, Exactness.AT_LEAST) for status, rows in looked.items()}
    if tenant is not None and not await statistics.is_counted(session, tenant):
        return numbers
    succeeded = max(looked[Status.SUCCEEDED], sum(each.succeeded for each in figures))
    return numbers | {Status.SUCCEEDED: Number(succeeded, Exactness.ABOUT)}
