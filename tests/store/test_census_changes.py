"""Rows of a day move while it is counted in stretches: each is counted once."""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from inboxd.operations import erase
from inboxd.operations.bulk import Terms
from inboxd.operations.totals import Number
from inboxd.store import census, partitions
from inboxd.store.operator_sessions import open_session
from inboxd.store.partitions import Partition
from inboxd.store.wakeups import HotTable
from tests.store.days import TABLES, count_day, counted, take, uncounted
from tests.support import Database
from tests.support.history import day, make_day, settle, store_body
from tests.support.rows import daemon_session, settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

# About ten pages.
_MANY = 300


async def _changed_while_counted(
    database: Database, table: HotTable, change: Callable[[], Awaitable[object]]
) -> None:
    """Count a day in several stretches; `change` moves its rows to the end before the last one."""
    (found,) = [each for each in await uncounted(database, table) if day(2) in each.part]
    assert found.pages > 3
    async with daemon_session(database) as session:
        began, rows = await count_day(session, found, change)
        assert rows.statuses.total() > _MANY, "some rows were counted twice"
        assert not await census.end(session, found, began, rows)
    assert (await counted(database, table)).successes == Number(_MANY)
    await take(database)
    assert not await uncounted(database, table)
    assert (await counted(database, table)).successes == Number(_MANY)


@pytest.mark.parametrize("table", TABLES)
async def test_rows_erased_while_their_day_is_counted_count_once(
    database: Database, table: HotTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of an entity are erased: type, status and tenant stay, and the rows move."""
    monkeypatch.setattr(census, "_STRETCH_PAGES", 1)
    await make_day(database, 2, f"{table}_history")
    await settle(database, 2, _MANY, "a.a", f"{table}_history")
    await database.execute(f"update inboxd.{table}_history set entity_type = 'u', entity_id = '7'")

    async def change() -> None:
        async with open_session(settings_of(database), patient=True) as session:
            subject = erase.subject_of(None, "u", "7")
            await erase.erase(session, subject, Terms(actor="a test"))

    await _changed_while_counted(database, table, change)


async def _late(database: Database, table: str) -> Partition:
    """Write rows that were settled late; returns the partition of their bodies."""
    await make_day(database, 2, f"{table}_history")
    await make_day(database, 9, "bodies")
    body = await store_body(database, 9, "late")
    await settle(database, 2, _MANY, "a.a", f"{table}_history", body)
    async with daemon_session(database) as session:
        listed = await partitions.listed(session)
    return next(each for each in listed if each.part == f"bodies{day(9)}")


async def _keep(database: Database, bodies: Partition) -> None:
    async with daemon_session(database) as session:
        assert await partitions.keep_bodies(session, bodies) == _MANY


@pytest.mark.parametrize("table", TABLES)
async def test_rows_whose_bodies_are_copied_during_a_count_count_once(
    database: Database, table: HotTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(census, "_STRETCH_PAGES", 1)
    bodies = await _late(database, table)
    await _changed_while_counted(database, table, lambda: _keep(database, bodies))


async def test_a_day_whose_bodies_are_copied_forward_is_not_counted_again(
    database: Database,
) -> None:
    bodies = await _late(database, "events")
    await take(database)
    await _keep(database, bodies)
    assert not await uncounted(database, "events")
    assert (await counted(database, "events")).successes == Number(_MANY)


@pytest.mark.parametrize("is_counted", [True, False])
async def test_count_does_not_begin_before_copied_bodies_are_committed(
    database: Database, is_counted: bool
) -> None:
    """The count would meet rows at their old places, and again at their new ones."""
    bodies = await _late(database, "events")
    if is_counted:
        await take(database)
    async with daemon_session(database) as other, daemon_session(database) as session:
        await other.connection.execute("set lock_timeout = '100ms'")
        async with session.transaction():
            await partitions.keep_bodies(session, bodies)
            with pytest.raises(asyncpg.LockNotAvailableError):
                await census.begin(other, f"events_history{day(2)}", "events_history")
        await census.begin(other, f"events_history{day(2)}", "events_history")
