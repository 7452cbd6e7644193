"""The census and the totals built on it stay true, whatever happens to history."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inboxd import operations
from inboxd.operations import erase
from inboxd.operations.bulk import Terms
from inboxd.operations.totals import Exactness, Number
from inboxd.store import census, partitions
from inboxd.store.census import DayCount
from inboxd.store.operator_sessions import open_session
from inboxd.store.wakeups import HotTable
from tests.store.days import TABLES, count_day, counted, ended, take, uncounted
from tests.store.in_hand import InHand
from tests.store.retained import MONTH, let_go, retire
from tests.support import Database, StartWorker, eventually
from tests.support.history import day, make_day
from tests.support.rows import daemon_session, emit, send, settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

TYPES, TENANTS = ("a.a", "b.b"), (None, "north", "south")
DAYS = (2, 3, 4)
FOREVER = {"events": "forever", "commands": "forever"}


async def truth(
    database: Database, table: str, type_: str | None, tenant: str | None
) -> Counter[str]:
    """The number of rows by status, counted directly."""
    found: Counter[str] = Counter()
    for name in (table, f"{table}_history"):
        rows = await database.fetch(
            f"select status, count(*) from inboxd.{name} where ($1::text is null or type = $1)"
            " and ($2::text is null or tenant = $2) group by 1",
            *(type_, tenant),
        )
        for status, number in rows:
            found[f"{name} {status}"] = number
    return found


async def check(database: Database, table: HotTable, in_hand: int) -> None:
    """Check that all totals are exact and true; in_hand: rows that living workers have claimed."""
    for type_ in (None, *TYPES):
        for tenant in TENANTS:
            found = await counted(database, table, type_, tenant)
            real = await truth(database, table, type_, tenant)
            past = f"{table}_history"
            of = {
                "total": real.total(),
                "pending": real[f"{table} pending"] + real[f"{table} waiting"],
                "errors": real[f"{table} failed"],
                "successes": real[f"{past} succeeded"],
                "cancelled": real[f"{past} cancelled"],
                "dismissed": real[f"{past} dismissed"],
                "replayed": real[f"{past} failed"],
            }
            shown = {name: getattr(found, name) for name in of}
            assert shown == {name: Number(rows) for name, rows in of.items()}, (type_, tenant)
            processing: Number | None = Number(real[f"{table} running"])
            if table == "events":  # heartbeats have the number, but no types
                is_known = type_ is None and tenant is None
                processing = Number(in_hand, Exactness.ABOUT) if is_known else None
            assert found.processing == processing, (type_, tenant)


# ------------------------------------------------------------------------- random histories

_ROWS = st.tuples(
    st.just("ended"),
    st.sampled_from([0, *DAYS]),
    st.integers(1, 5),
    st.sampled_from(TYPES),
    st.sampled_from(["succeeded", "failed", "cancelled", "dismissed"]),
    st.sampled_from(TENANTS),
)
_STEPS = st.one_of(
    st.tuples(st.just("census")),
    st.tuples(st.just("killed"), st.integers(0, 2)),
    st.tuples(st.just("erased"), st.sampled_from(TENANTS[1:]), st.booleans()),
    st.tuples(st.just("trimmed"), st.sampled_from(TYPES), st.booleans()),
    st.tuples(st.just("dropped"), st.sampled_from(DAYS)),
    st.tuples(st.just("arrived"), st.integers(1, 3), st.sampled_from(TYPES)),
    st.tuples(st.just("dead"), st.integers(1, 3), st.sampled_from(TYPES)),
    st.tuples(st.just("claimed"), st.integers(1, 3), st.sampled_from(TYPES)),
    st.tuples(st.just("retried"), st.sampled_from(["pending", "failed"])),
    st.tuples(st.just("settled")),
    st.tuples(st.just("worker_killed")),
    st.tuples(st.just("replay")),
    st.tuples(st.just("dismiss")),
)


# Five workers claim rows: one is killed; the others retry, give up, succeed, or still run them.
_WORKED: list[tuple[Any, ...]] = [
    *[("claimed", rows, "a.a") for rows in (1, 2, 3, 1, 2)],
    *[("worker_killed",), ("retried", "pending"), ("retried", "failed"), ("settled",)],
]


class _History(InHand):
    """A database whose history changes."""

    async def forget(self) -> None:
        for each in DAYS:
            await self._database.execute(
                f"drop table if exists inboxd.{self._table}_history{day(each)}"
            )
            await make_day(self._database, each, f"{self._table}_history")
        await self._database.execute(
            f"delete from inboxd.{self._table}; delete from inboxd.{self._table}_history;"
            "delete from inboxd.census; delete from inboxd.trimmed"
        )
        await self.let_go()

    async def ended(
        self, days: int, rows: int, type_: str, status: str, tenant: str | None
    ) -> None:
        await ended(self._database, self._table, days, rows, type_, status, tenant)

    async def census(self) -> None:
        await take(self._database)

    async def killed(self, place: int) -> None:
        """Let a leader die while it counts a day."""
        for each in (await uncounted(self._database, self._table))[place : place + 1]:
            async with daemon_session(self._database) as session:
                await census.begin(session, each.part, each.parent)

    async def erased(self, tenant: str, meanwhile: bool) -> None:
        await self._while_counting(lambda: self._erase(tenant), meanwhile)

    async def _erase(self, tenant: str) -> None:
        async with open_session(settings_of(self._database), patient=True) as session:
            subject = erase.subject_of(tenant, None, None)
            await erase.erase(session, subject, Terms(actor="a test"))

    async def trimmed(self, type_: str, meanwhile: bool) -> None:
        kept = {type_: {"retention": "1d"}}
        await self._while_counting(lambda: let_go(self._database, FOREVER, kept), meanwhile)

    async def _while_counting(
        self, change: Callable[[], Awaitable[object]], meanwhile: bool
    ) -> None:
        """Change history; `meanwhile`: between the count of another leader and its writing."""
        async with daemon_session(self._database) as session:
            days = (await uncounted(self._database, self._table))[:1] if meanwhile else []
            found = [(each, await count_day(session, each)) for each in days]
            await change()
            for each, (began, rows) in found:
                await census.end(session, each, began, rows)

    async def dropped(self, days: int) -> None:
        await self._database.execute(
            f"drop table if exists inboxd.{self._table}_history{day(days)}"
        )

    async def arrived(self, rows: int, type_: str) -> None:
        write = emit if self._table == "events" else send
        await write(self._database, rows, type_)

    async def dead(self, rows: int, type_: str) -> None:
        write = emit if self._table == "events" else send
        ids = await write(self._database, rows, type_)
        await self._database.execute(
            f"update inboxd.{self._table} set status = 'failed' where id = any ($1)", ids
        )

    async def replay(self) -> None:
        await self._act("replay")

    async def dismiss(self) -> None:
        await self._act("dismiss")

    async def _act(self, action: operations.Action) -> None:
        ids = [
            row[0]
            for row in await self._database.fetch(
                f"select id from inboxd.{self._table} where status = 'failed' limit 2"
            )
        ]
        if ids:
            async with open_session(settings_of(self._database)) as session:
                await operations.act(session, self._table, action, ids, actor="a test")


async def _live(database: Database, table: HotTable, first: list[Any], then: list[Any]) -> None:
    history = _History(database, table)
    await history.forget()
    for name, *given_ in (*first, *then):
        await getattr(history, name)(*given_)
    await take(database)
    assert not await uncounted(database, table)
    await check(database, table, history.in_hand)


_HOW = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("table", TABLES)
@_HOW
@given(first=st.lists(_ROWS, min_size=1, max_size=6), then=st.lists(_STEPS, max_size=6))
@example(first=[], then=_WORKED)
@example(first=[("dead", 2, "b.b"), *_WORKED], then=[("replay",), ("dismiss",), *_WORKED])
async def test_totals_are_true_whatever_happens(
    database: Database,
    table: HotTable,
    first: list[Any],
    then: list[Any],
) -> None:
    await _live(database, table, first, then)


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("table", TABLES)
@settings(_HOW, max_examples=80)
@given(first=st.lists(_ROWS, min_size=2, max_size=12), then=st.lists(_STEPS, max_size=15))
async def test_totals_are_true_after_long_histories(
    database: Database,
    table: HotTable,
    first: list[Any],
    then: list[Any],
) -> None:
    await _live(database, table, first, then)


# --------------------------------------------------------------------- how days are counted


async def test_count_of_a_day_that_changed_meanwhile_is_discarded(database: Database) -> None:
    await make_day(database, 2, "events_history")
    await ended(database, "events", 2, 3)
    (found,) = [each for each in await uncounted(database, "events") if day(2) in each.part]
    async with daemon_session(database) as session:
        began, rows = await count_day(session, found)
        await census.begin(session, found.part, found.parent)
        assert not await census.end(session, found, began, rows)
        began, rows = await count_day(session, found)
        assert await census.end(session, found, began, rows)
        assert not await census.end(session, found, began, rows), "written a second time"
    assert found.part not in [each.part for each in await uncounted(database, "events")]


async def test_a_day_that_an_erasure_or_a_trim_changed_is_counted_again(
    database: Database,
) -> None:
    await make_day(database, 2, "events_history")
    await ended(database, "events", 2, 3, tenant="north")
    await ended(database, "events", 2, 2, "b.b", tenant="south")
    await take(database)
    history = _History(database, "events")
    await history.erased("north", meanwhile=False)
    assert (await counted(database, "events", tenant="north")).successes == Number(0)
    await take(database)
    await history.trimmed("b.b", meanwhile=False)
    await take(database)
    assert (await counted(database, "events", tenant="south")).total == Number(0)
    assert (await counted(database, "events")).total == Number(3)


async def test_a_day_that_an_open_transaction_has_written_to_is_not_over(
    database: Database,
) -> None:
    """The transaction settled a row before midnight, and commits when the day could be counted."""
    await make_day(database, 2, "events_history")
    async with database.connect() as late:
        transaction = late.transaction()
        await transaction.start()
        await ended(late, "events", 2, 2)  # type: ignore[arg-type]
        await take(database)
        assert (await counted(database, "events")).successes == Number(0)
        await transaction.commit()
    assert (await counted(database, "events")).successes == Number(2), "counted without a census"
    await take(database)
    assert await uncounted(database, "events") == []
    assert (await counted(database, "events")).successes == Number(2)


async def test_a_day_that_an_older_leader_trims_is_counted_again(database: Database) -> None:
    """An older leader calls the database's function, and does not know the census."""
    await make_day(database, 2, "events_history")
    await ended(database, "events", 2, 3)
    await ended(database, "events", 2, 2, "b.b")
    await take(database)
    async with daemon_session(database) as session:
        removed = await session.connection.fetchval(
            "select inboxd.trim_partition($1, '{b.b}', 0, 2000)", f"events_history{day(2)}"
        )
    assert removed == 2
    assert (await counted(database, "events")).successes == Number(3)
    assert len(await uncounted(database, "events")) == 1


async def test_a_day_that_is_dropped_counts_no_more(database: Database) -> None:
    """Before any leader looks at the day."""
    await make_day(database, 2, "events_history")
    await ended(database, "events", 2, 3, tenant="north")
    await take(database)
    await database.execute(f"drop table inboxd.events_history{day(2)}")
    for of in ({}, {"type_": "a.a"}, {"tenant": "north"}):
        assert (await counted(database, "events", **of)).total == Number(0), of


async def test_counts_made_by_a_fast_clock_are_discarded(database: Database) -> None:
    """The clock ran ahead, so a day seemed to be over; then the clock was set back."""
    await ended(database, "events", 0, 1, tenant="north")
    part = f"events_history{day(0)}"
    async with daemon_session(database) as session:
        days = await census.uncounted(session)
        (today,) = [each for each in days if each.part == part]
        began, rows = await count_day(session, today)
        assert await census.end(session, today, began, rows)
    await ended(database, "events", 0, 1, tenant="north")
    assert (await counted(database, "events")).successes == Number(1)
    await database.execute(
        "update inboxd.census set counted_at = now() + interval '1 hour' where part = $1", part
    )
    for of in ({}, {"type_": "a.a"}, {"tenant": "north"}):
        assert (await counted(database, "events", **of)).successes == Number(2), "without a census"
    await take(database)
    assert await database.fetchval("select count(*) from inboxd.census where part = $1", part) == 0
    assert (await counted(database, "events")).successes == Number(2)


async def test_a_day_that_is_attached_again_is_counted_again(database: Database) -> None:
    """A leader that counted while the day was detached did not find its rows."""
    await make_day(database, 100, "events_history")
    await ended(database, "events", 100, 5)
    part = f"events_history{day(100)}"
    async with daemon_session(database) as session:
        (found,) = [each for each in await uncounted(database, "events") if each.part == part]
        began = await census.begin(session, part, "events_history")
        oldest = await retire(session, part)
        await partitions.record_export(session, oldest, 4, 1, "elsewhere")
        await partitions.detach(session, oldest)
        rows = DayCount()
        for stretch in census.stretches(found):
            await census.count(session, found, stretch, rows)
        assert await census.end(session, found, began, rows)
    await let_go(database, MONTH)
    assert await database.fetchval("select count(*) from inboxd.events_history") == 5
    assert (await counted(database, "events")).successes == Number(5)


async def test_interrupted_trim_leaves_no_older_count(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader dies in the middle of a trim, after the day has been counted meanwhile."""
    await make_day(database, 3, "events_history")
    await ended(database, "events", 3, 3)
    trim = partitions.trim

    async def count_first(*given: Any) -> int:
        await take(database)
        return await trim(*given)

    monkeypatch.setattr(partitions, "trim", count_first)
    monkeypatch.setattr(partitions, "record_trim", _die)
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await let_go(database, FOREVER, {"a.a": {"retention": "1d"}})
    assert await database.fetchval("select count(*) from inboxd.events_history") == 0
    assert (await counted(database, "events")).successes == Number(0)


async def _die(*_given: Any) -> None:
    raise asyncpg.ConnectionDoesNotExistError("killed")


async def test_a_day_is_counted_once_and_todays_is_not(database: Database) -> None:
    await make_day(database, 2, "events_history")
    await ended(database, "events", 2, 3)
    await ended(database, "events", 0, 1)
    await take(database)
    first = await database.fetch("select part, counted_at from inboxd.census")
    await take(database)
    assert await database.fetch("select part, counted_at from inboxd.census") == first
    assert f"events_history{day(0)}" not in [row["part"] for row in first]
    assert (await counted(database, "events")).successes == Number(4)


def test_largest_types_and_tenants_are_kept_if_there_are_too_many() -> None:
    found = DayCount()
    for number in range(5):
        found.add(f"type {number}", "succeeded", f"tenant {number}", number + 1)
    found.shorten(types=2, tenants=3)
    assert sorted(found.types) == ["type 3", "type 4"]
    assert sorted(found.tenants) == ["tenant 2", "tenant 3", "tenant 4"]
    assert (found.types_left, found.tenants_left) == (1 + 2 + 3, 1 + 2)
    assert found.statuses.total() == 15


async def test_a_leader_takes_the_census(database: Database, start_worker: StartWorker) -> None:
    await make_day(database, 2)
    for table in TABLES:
        await ended(database, table, 2, 3)
    assert (await counted(database, "events")).days_without_census > 0
    await start_worker({"maintenance": {"interval": "1s"}})

    async def is_counted() -> bool:
        return not any([await uncounted(database, table) for table in TABLES])

    await eventually(is_counted)
    for table in TABLES:
        assert (await counted(database, table)).successes == Number(3)
    ages = await database.fetchval("select now() - min(counted_at) from inboxd.census")
    assert ages < timedelta(minutes=1)
