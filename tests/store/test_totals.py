"""Totals of partly counted rows: the exactness of each number."""

import pytest

from inboxd.operations import totals
from inboxd.operations.totals import Exactness, Number
from inboxd.store.census import DayCount
from tests.store.days import counted, ended, take
from tests.support import Database
from tests.support.history import make_day
from tests.support.rows import emit

pytestmark = [pytest.mark.anyio, pytest.mark.safety]


async def test_types_and_tenants_without_a_count_make_numbers_minimums(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DayCount.shorten, "__defaults__", (1, 1))
    await make_day(database, 2, "events_history")
    for rows, name in ((3, "north"), (1, "south")):
        await ended(database, "events", 2, rows, f"of {name}", tenant=name)
    await take(database)
    assert (await counted(database, "events")).successes == Number(4)
    for of in ({"type_": "of north"}, {"tenant": "north"}):
        found = (await counted(database, "events", **of)).successes
        assert found == Number(3, Exactness.AT_LEAST)
    south = (await counted(database, "events", tenant="south")).successes
    assert south == Number(0, Exactness.AT_LEAST)


async def test_numbers_beyond_the_limit_are_estimates_or_minimums(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "_LOOKED", 2)
    monkeypatch.setattr(totals, "COUNTED", 2)
    await ended(database, "events", 0, 5)
    await emit(database, 3)
    found = await counted(database, "events")
    assert found.successes == Number(3, Exactness.ABOUT), "3 rows read; the statistics have none"
    assert found.dismissed == Number(0, Exactness.AT_LEAST)
    assert found.pending == Number(3, Exactness.AT_LEAST)
    assert found.total == Number(6, Exactness.AT_LEAST), "more rows may be pending"


async def test_days_that_are_not_read_make_numbers_minimums(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the statistics know about how many of today's events succeeded."""
    monkeypatch.setattr(totals, "_LOOKED", 2)
    for days in (2, 3, 4):
        await make_day(database, days, "events_history")
        await ended(database, "events", days, 5)
    await ended(database, "events", 0, 5)
    found = await counted(database, "events")
    assert found.days_without_census >= 3
    assert found.successes.exactness == Exactness.AT_LEAST
    assert found.total.exactness == Exactness.AT_LEAST


async def test_statistics_are_not_used_for_an_unnamed_tenant(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "_LOOKED", 2)
    await ended(database, "events", 0, 5, tenant="north")
    found = await counted(database, "events", tenant="north")
    assert found.successes == Number(3, Exactness.AT_LEAST)
    await database.execute("insert into inboxd.stats_tenants (tenant) values ('north')")
    found = await counted(database, "events", tenant="north")
    assert found.successes == Number(3, Exactness.ABOUT)
