# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of the census and of totals: counting a day, and reading the counts."""

from datetime import UTC, datetime, timedelta

from inboxd.store import batch_totals, census, daily_statement, totals
from inboxd.store.census import DayCount, Stretch, UncountedDay
from inboxd.store.connections import Connection
from inboxd.store.daily_statement import EventsOfDay
from inboxd.store.wakeups import HotTable
from tests.plans.filling import Known
from tests.plans.statements.case import SQL, Case, operator, run

_TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _day(table: HotTable) -> UncountedDay:
    low, part = _TODAY, f"{table}_history{_TODAY:_%Y%m%d}"
    return UncountedDay(f"{table}_history", part, low, low + timedelta(days=1), over=False, pages=1)


def _stretch(table: HotTable) -> Case:
    async def count(session: Connection, known: Known) -> None:
        await census.count(session, SQL, _day(table), Stretch(0, 1), DayCount())

    return count


async def _end(session: Connection, known: Known) -> None:
    day, found = _day("events"), DayCount()
    found.add("a", "succeeded", "north", 1)
    began = await census.begin(session, SQL, day.part, day.parent)
    await census.end(session, SQL, day, began, found)


async def _begin(session: Connection, known: Known) -> None:
    await census.begin(session, SQL, _day("events").part, "events_history")


async def _sources(session: Connection, known: Known) -> None:
    found = EventsOfDay()
    await daily_statement.count_events(session, SQL, _day("events"), Stretch(0, 1), found)
    await daily_statement.keep_events(session, SQL, _day("events"), found)


async def _receipts(session: Connection, known: Known) -> None:
    part = f"receipts{_TODAY:_%Y%m%d}"
    day = UncountedDay("receipts", part, _TODAY, _TODAY + timedelta(days=1), over=True, pages=1)
    found = await daily_statement.begin_receipts(session, SQL, day)
    await daily_statement.count_receipts(session, SQL, day, Stretch(0, 1), found)
    await daily_statement.keep_receipts(session, SQL, day, found)


async def _ledger(session: Connection, known: Known) -> None:
    await daily_statement.ledger(session, SQL, {(_TODAY.date(), "s", "open"): 1}, [])


_BEGIN = ("census_types_part", "census_tenants_part")

CENSUS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "uncounted_partitions": (lambda c, k: census.uncounted(c, SQL), ()),
    "begin_census": (_begin, _BEGIN),
    "end_census": (_end, _BEGIN),
    "count_stretch_events": (_stretch("events"), ()),
    "count_stretch_commands": (_stretch("commands"), ()),
    "count_sources, events_without_receipt, keep_settled, keep_strays": (_sources, ()),
    "are_events_kept, count_receipts, keep_receipt_counts": (_receipts, ()),
    "open_of_days": (run("open_of_days", 0, 10), ("events_pkey",)),
    "settled_of_days and the others": (_ledger, ()),
    "statement_due": (lambda c, k: daily_statement.due(c, SQL), ()),
    "partitions_to_count_again": (
        lambda c, k: daily_statement.to_count_again(c, SQL, timedelta(days=7), 3),
        (),
    ),
    "forget_census": (lambda c, k: census.forget(c, SQL), ()),
    "hold_batch_changes, add_batch_totals, remove_batch_changes": (
        lambda c, k: batch_totals.add_up(c, SQL, 5),
        ("batch_changes_pkey",),
    ),
    "forget_batch_totals": (lambda c, k: batch_totals.forget(c, SQL, 10), ("batch_totals_none",)),
}

TOTALS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "total_census": (
        operator(lambda s, k: census.total(s.connection, SQL, "events", None, None)),
        (),
    ),
    "total_census_type": (
        operator(lambda s, k: census.total(s.connection, SQL, "events", "test.noop", None)),
        ("census_types_type",),
    ),
    "total_census_tenant": (
        operator(lambda s, k: census.total(s.connection, SQL, "events", "test.noop", "nobody")),
        ("census_tenants_tenant",),
    ),
    "count_day_events": (
        operator(lambda s, k: census.look(s.connection, SQL, _day("events"), None, "nobody", 10)),
        (),
    ),
    "count_day_commands": (
        operator(lambda s, k: census.look(s.connection, SQL, _day("commands"), "a", None, 10)),
        (),
    ),
    "count_hot_events": (
        operator(lambda s, k: totals.hot(s.connection, SQL, "events", None, "nobody", 10)),
        ("events_pkey",),
    ),
    "count_hot_commands": (
        operator(lambda s, k: totals.hot(s.connection, SQL, "commands", "a", None, 10)),
        ("commands_pkey",),
    ),
    "total_batches": (
        operator(lambda s, k: batch_totals.read(s.connection, SQL, "batch", "t7", "n7", 50)),
        ("batch_totals_pkey", "batch_changes_pkey"),
    ),
    "count_events_in_hand": (
        operator(lambda s, k: totals.events_in_hand(s.connection, SQL)),
        (),
    ),
}
