# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of the census and of totals: counting a day, and reading the counts."""

from datetime import UTC, datetime, timedelta

from inboxd.store import batch_totals, census, daily_statement, totals
from inboxd.store.census import DayCount, Stretch, UncountedDay
from inboxd.store.daily_statement import EventsOfDay
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from tests.plans.filling import Known
from tests.plans.statements.case import Case, run

_TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _day(table: HotTable) -> UncountedDay:
    low, part = _TODAY, f"{table}_history{_TODAY:_%Y%m%d}"
    return UncountedDay(f"{table}_history", part, low, low + timedelta(days=1), over=False, pages=1)


def _stretch(table: HotTable) -> Case:
    async def count(session: Session, known: Known) -> None:
        await census.count(session, _day(table), Stretch(0, 1), DayCount())

    return count


async def _end(session: Session, known: Known) -> None:
    day, found = _day("events"), DayCount()
    found.add("a", "succeeded", "north", 1)
    began = await census.begin(session, day.part, day.parent)
    await census.end(session, day, began, found)


async def _begin(session: Session, known: Known) -> None:
    await census.begin(session, _day("events").part, "events_history")


async def _sources(session: Session, known: Known) -> None:
    found = EventsOfDay()
    await daily_statement.count_events(session, _day("events"), Stretch(0, 1), found)
    await daily_statement.keep_events(session, _day("events"), found)


async def _receipts(session: Session, known: Known) -> None:
    part = f"receipts{_TODAY:_%Y%m%d}"
    day = UncountedDay("receipts", part, _TODAY, _TODAY + timedelta(days=1), over=True, pages=1)
    found = await daily_statement.begin_receipts(session, day)
    await daily_statement.count_receipts(session, day, Stretch(0, 1), found)
    await daily_statement.keep_receipts(session, day, found)


async def _ledger(session: Session, known: Known) -> None:
    await daily_statement.ledger(session, {(_TODAY.date(), "s", "open"): 1}, [])


_BEGIN = ("census_types_part", "census_tenants_part")

CENSUS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "uncounted_partitions": (lambda c, k: census.uncounted(c), ()),
    "begin_census": (_begin, _BEGIN),
    "end_census": (_end, _BEGIN),
    "count_stretch_events": (_stretch("events"), ()),
    "count_stretch_commands": (_stretch("commands"), ()),
    "count_sources, events_without_receipt, keep_settled, keep_strays": (_sources, ()),
    "are_events_kept, count_receipts, keep_receipt_counts": (_receipts, ()),
    "open_of_days": (run("open_of_days", 0, 10), ("events_pkey",)),
    "settled_of_days and the others": (_ledger, ()),
    "statement_due": (lambda c, k: daily_statement.due(c), ()),
    "partitions_to_count_again": (
        lambda c, k: daily_statement.to_count_again(c, timedelta(days=7), 3),
        (),
    ),
    "forget_census": (lambda c, k: census.forget(c), ()),
    "hold_batch_changes, add_batch_totals, remove_batch_changes": (
        lambda c, k: batch_totals.add_up(c, 5),
        ("batch_changes_pkey",),
    ),
    "forget_batch_totals": (lambda c, k: batch_totals.forget(c, 10), ("batch_totals_none",)),
}

TOTALS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "total_census": (
        lambda s, k: census.total(s, "events", None, None),
        (),
    ),
    "total_census_type": (
        lambda s, k: census.total(s, "events", "test.noop", None),
        ("census_types_type",),
    ),
    "total_census_tenant": (
        lambda s, k: census.total(s, "events", "test.noop", "nobody"),
        ("census_tenants_tenant",),
    ),
    "count_day_events": (
        lambda s, k: census.look(s, _day("events"), None, "nobody", 10),
        (),
    ),
    "count_day_commands": (
        lambda s, k: census.look(s, _day("commands"), "a", None, 10),
        (),
    ),
    "count_hot_events": (
        lambda s, k: totals.hot(s, "events", None, "nobody", 10),
        ("events_pkey",),
    ),
    "count_hot_commands": (
        lambda s, k: totals.hot(s, "commands", "a", None, 10),
        ("commands_pkey",),
    ),
    "total_batches": (
        lambda s, k: batch_totals.read(s, "batch", "t7", "n7", 50),
        ("batch_totals_pkey", "batch_changes_pkey"),
    ),
    "count_events_in_hand": (
        lambda s, k: totals.events_in_hand(s),
        (),
    ),
}
