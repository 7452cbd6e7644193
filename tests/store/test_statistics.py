"""Statistics show each written row once, rolled up or not, whatever process dies."""

import itertools
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inboxd.operations.throughput import throughput_of
from inboxd.store import purging, statistics
from inboxd.store.connections import Connection
from inboxd.store.session import Session
from inboxd.store.statistics import RESOLUTIONS, FigureFilter, Figures, Resolution
from inboxd.telemetry.tally import OTHER, Statistic, StatisticKey
from tests.store.counting import count_of, counted, empty, of, roll_up, write
from tests.support import Database
from tests.support.rows import SQL, daemon_session

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

_UNITS = {
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
    "days": timedelta(days=1),
}
_SINCE = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Session]:
    """The leader's session on empty tables."""
    await empty(database)
    async with daemon_session(database) as session:
        yield session


# ----------------------------------------------------------------------------- random histories


@dataclass
class Raw:
    """All written rows, and the figures computed from them directly."""

    rows: list[tuple[datetime, Statistic]] = field(default_factory=list)

    def figures(
        self, resolution: Resolution, tenant: str | None = None
    ) -> dict[tuple[object, ...], tuple[object, ...]]:
        """The figures by time, kind, lane and type."""
        found: dict[tuple[object, ...], Figures] = {}
        for minute, row in self.rows:
            if tenant is not None and row.key.tenant != tenant:
                continue
            at = minute - (minute - _SINCE) % _UNITS[resolution]
            key = (at, row.key.kind, row.key.lane, row.key.type)
            figures = found.setdefault(key, Figures(*key))
            figures.executions[row.key.outcome, row.key.after] += row.rows
            figures.run.add(row.run or of())
            figures.wait.add(row.wait or of())
            figures.completion.add(row.completion or of())
        return {key: _told(figures) for key, figures in found.items()}


def _told(figures: Figures) -> tuple[object, ...]:
    counts = Counter({key: n for key, n in figures.executions.items() if n})
    return counts, figures.run, figures.wait, figures.completion


async def read(
    session: Session, resolution: Resolution, tenant: str | None = None
) -> dict[tuple[object, ...], tuple[object, ...]]:
    """The figures that readers of the statistics see."""
    found = await statistics.read(
        *(session, resolution, _SINCE),
        apart=("at", "kind", "lane", "type"),
        of=FigureFilter(tenant=tenant),
    )
    return {(each.at, each.kind, each.lane, each.type): _told(each) for each in found}


# These values are exact in a column of type real, in any order of adding.
_TOOK = st.integers(0, 4000).map(lambda n: n / 4)
_WRITTEN = st.builds(
    counted,
    ago=st.integers(0, 3 * 1440).map(lambda minutes: 60.0 * minutes),
    kind=st.sampled_from(["event", "command"]),
    lane=st.sampled_from(["news", "mails"]),
    type_=st.sampled_from(["a", "b"]),
    outcome=st.sampled_from(["succeeded", "failed", "retried"]),
    after=st.sampled_from(["", "retry", "replay"]),
    tenant=st.sampled_from([None, None, "t", OTHER]),
    took=st.lists(_TOOK, min_size=1, max_size=3).map(tuple),
)
_STEPS = st.one_of(
    st.lists(_WRITTEN, min_size=1, max_size=8),
    st.tuples(st.just("roll up"), st.integers(1, 12)),
    st.tuples(st.just("die"), st.integers(0, 7)),
    st.tuples(st.just("two leaders"), st.integers(1, 6)),
    st.tuples(st.just("purge"), st.integers(0, 3)),
)


class _Death(Exception):
    """The leader dies in the middle of a roll-up."""


async def _die(session: Session, after: int) -> None:
    """Roll up, and lose the connection after `after` statements."""
    left = after

    class Dying:
        async def execute(self, *arguments: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise _Death
            await session.connection.execute(*arguments)  # type: ignore[arg-type]

        fetch = session.connection.fetch

    with suppress(_Death):
        async with session.transaction():
            await statistics.roll_up(Session(cast("Connection", Dying()), SQL), 100)
            raise _Death


async def _two_leaders(session: Session, other: Session, rows: int) -> None:
    """A leader that was stopped in the middle goes on while another one leads."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(roll_up, session, rows)
        tasks.start_soon(roll_up, other, rows)


async def _live(
    session: Session, other: Session, steps: Iterable[object], now: datetime
) -> tuple[Raw, timedelta]:
    """Run the steps; returns the written rows, and the age from which minutes may be deleted."""
    raw, youngest_gone = Raw(), timedelta.max
    for step in steps:
        match step:
            case list():
                # The middle of its minute, so that a late statement writes the same minute.
                late = (await session.connection.fetchval("select now()") - now).total_seconds()
                await write(
                    session, *(r._replace(key=_at(r.key, r.key.counted_at - late)) for r in step)
                )
                raw.rows += [(_minute(now, row.key.counted_at), row) for row in step]
            case ("roll up", int(rows)):
                await roll_up(session, rows)
            case ("die", int(statements)):
                await _die(session, statements)
            case ("two leaders", int(rows)):
                await _two_leaders(session, other, rows)
            case ("purge", int(days)):
                age = timedelta(days=days)
                await purging.remove(session, "stats_minutes", age, 1000)
                youngest_gone = min(youngest_gone, age)
    return raw, youngest_gone


def _at(key: StatisticKey, counted_at: float) -> StatisticKey:
    return key._replace(counted_at=counted_at)


def _minute(now: datetime, counted_at: float) -> datetime:
    return (now + timedelta(seconds=counted_at)).replace(second=0, microsecond=0)


async def _check(database: Database, session: Session, steps: list[object]) -> None:
    await empty(database)
    # The middle of a minute, so that later statements are in the same minute.
    now = (await session.connection.fetchval("select now()")).replace(second=30, microsecond=0)
    async with daemon_session(database) as other:
        raw, purged = await _live(session, other, steps, now)
    for _ in range(2):
        for resolution in ("hours", "days"):
            assert await read(session, resolution) == raw.figures(resolution)
            for tenant in ("t", OTHER):
                assert await read(session, resolution, tenant) == raw.figures(resolution, tenant)
        minutes, expected = await read(session, "minutes"), raw.figures("minutes")
        border = now - purged + timedelta(minutes=2) if purged < timedelta.max else _SINCE
        young = {key for key in expected if cast("datetime", key[0]) > border}
        assert {key: minutes[key] for key in young} == {key: expected[key] for key in young}
        assert set(minutes) <= set(expected)
        while await roll_up(session, 7):
            pass
        assert await count_of(session, "stats_written") == 0


_HOW = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_HOW
@given(steps=st.lists(_STEPS, min_size=3, max_size=10))
async def test_each_row_counts_once_after_any_roll_ups(
    database: Database, session: Session, steps: list[object]
) -> None:
    await _check(database, session, steps)


@pytest.mark.long
@pytest.mark.soak
@settings(_HOW, max_examples=200)
@given(steps=st.lists(_STEPS, min_size=5, max_size=30))
async def test_long_histories_are_rolled_up_each_row_once(
    database: Database, session: Session, steps: list[object]
) -> None:
    await _check(database, session, steps)


# ------------------------------------------------------------------------------- writing


async def test_minutes_are_those_of_the_database(session: Session) -> None:
    now = await session.connection.fetchval("select now()")
    await write(session, counted(0.0), counted(3600.0), counted(-3600.0))
    minutes = [
        row[0] for row in await session.connection.fetch("select minute from inboxd.stats_written")
    ]
    ages = sorted((now - minute).total_seconds() // 3600 for minute in minutes)
    assert ages == [0, 0, 1], "a row of the future counts as of now"


async def test_rows_are_kept_when_the_clock_is_set_back(session: Session) -> None:
    """Rows from before then lie in the future; readers up to now include them."""
    await write(session, counted(), counted())
    await session.connection.execute(
        "update inboxd.stats_written set minute = minute + interval '3 hours'"
    )
    await statistics.roll_up(session, 1, timedelta(hours=-4))
    await write(session, counted())
    lately = await statistics.lately(session, timedelta(minutes=5))
    assert [each.succeeded for each in lately.figures] == [3]
    day = await statistics.lately(session, timedelta(days=1))
    assert [each.succeeded for each in day.figures] == [3]


async def test_rows_of_older_code_are_taken_over_and_count_once(session: Session) -> None:
    """An older worker goes on writing, also to rows that were taken over."""
    old = (
        "insert into inboxd.stats as old values (date_trunc('minute', now()), $1, 'event', 'a',"
        " $2, $3, $4, $5) on conflict (minute, worker_id, kind, type, outcome) do update set"
        " count = old.count + excluded.count, total = old.total + excluded.total,"
        " maximum = greatest(old.maximum, excluded.maximum)"
    )
    me = "00000000-0000-0000-0000-000000000001"
    for rows in (1, 100):
        await session.connection.execute(old, me, "succeeded", 4, 2.0, 1.5)
        await session.connection.execute(old, me, "completed", 4, 8.0, 6.0)
        await session.connection.execute(old, me, "succeeded after retry", 1, 0.0, 0.0)
        await session.connection.execute(old, me, "failed", 2, 1.0, 0.5)
        await roll_up(session, rows)
    while await roll_up(session):
        pass
    assert await count_of(session, "stats") == 0
    (found,) = await statistics.read(session, "days", _SINCE)
    assert (found.succeeded, found.outcome("succeeded", "retry")) == (8, 2)
    assert (found.outcome("failed"), found.reprocessed, found.attempts) == (4, 2, 12)
    assert (found.run.total, found.run.maximum) == (6.0, 1.5)
    assert (found.completion.total, found.completion.maximum) == (16.0, 6.0)


async def test_means_include_rows_of_older_code(session: Session) -> None:
    """Older code wrote totals, and no histograms."""
    old = (
        "insert into inboxd.stats values (date_trunc('minute', now()), $1, 'event', 'a',"
        " $2, $3, $4, $5)"
    )
    me = "00000000-0000-0000-0000-000000000001"
    await session.connection.execute(old, me, "succeeded", 3, 6.0, 4.0)
    await session.connection.execute(old, me, "completed", 3, 9.0, 5.0)
    await session.connection.execute(old, me, "failed", 1, 1.0, 1.0)
    await roll_up(session)
    await write(session, counted(took=(5.0,)))
    (found,) = await statistics.read(session, "days", _SINCE, apart=())
    done = throughput_of(found, 60.0)
    assert (done.run.count, done.run.mean, done.run.longest) == (5, (6.0 + 1.0 + 5.0) / 5, 5.0)
    assert (done.completion.count, done.completion.mean) == (4, (9.0 + 10.0) / 4)
    assert (done.wait.count, done.wait.mean) == (2, 5.0), "older code did not count waits"


async def test_tenants_are_admitted_up_to_the_limit(session: Session) -> None:
    admitted = await statistics.admit_tenants(session, ["c", "a"], 3)
    assert admitted == {"a", "c"}
    assert await statistics.admit_tenants(session, ["d", "b", "c"], 3) == {"a", "b", "c"}
    await session.connection.execute(
        "update inboxd.stats_tenants set seen_at = now() - interval '31 days'"
    )
    assert await statistics.admit_tenants(session, ["a", "d"], 3) == {"a", "b", "c"}
    await purging.forget_tenants(session)
    assert await statistics.admit_tenants(session, ["d", "a"], 3) == {"a", "d"}


async def test_new_names_are_counted_together_on_a_day_with_many_series(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known names and declared types stay; the next day has room."""
    monkeypatch.setattr(statistics, "_SERIES", 3)
    await session.connection.execute(
        "insert into inboxd.declared_types (kind, type) values ('event', 'declared')"
        " on conflict do nothing"
    )
    await write(
        session, counted(lane="n1"), counted(lane="n2"), counted(lane="n3", took=(1.0,) * 2)
    )
    await roll_up(session)
    day = 86_400.0
    await write(
        session,
        counted(lane="n1", outcome="failed"),
        counted(lane="n4", tenant="t"),
        counted(lane="n5", type_="declared"),
        counted(day, lane="n6"),
    )
    await statistics.write_events(session, "ignored", [("n7", "b", 0.0, 5)])
    await roll_up(session)
    found = await statistics.read(session, "days", _SINCE, apart=("lane", "type"))
    assert {(each.lane, each.type): sum(each.executions.values()) for each in found} == {
        ("n1", "a"): 2,
        ("n2", "a"): 1,
        ("n3", "a"): 2,
        (OTHER, OTHER): 6,
        (OTHER, "declared"): 1,
        ("n6", "a"): 1,
    }
    of_tenant = FigureFilter(tenant="t")
    (its,) = await statistics.read(session, "days", _SINCE, apart=("lane",), of=of_tenant)
    assert its.lane == OTHER


# --------------------------------------------------------------------------------- reading


async def test_figures_of_unnamed_columns_are_added_up(session: Session) -> None:
    await write(
        session,
        counted(type_="a", lane="news"),
        counted(type_="b", lane="news", outcome="failed", after="retry"),
        counted(type_="b", lane="mails", outcome="deferred", after="retry"),
        counted(kind="command", type_="b", lane="q"),
    )
    await statistics.write_events(session, "ignored", [("news", "c", 0.0, 5)])
    for _ in range(2):
        (every,) = await statistics.read(session, "hours", _SINCE, apart=())
        assert (every.at, every.kind, every.lane, every.type) == (None,) * 4
        assert (every.executed, every.attempts, every.reprocessed) == (4, 3, 1)
        assert every.outcome("ignored") == 5
        assert every.completion == of(2.0, 2.0)
        lanes = await statistics.read(
            session, "hours", _SINCE, apart=("lane",), of=FigureFilter(kind="event")
        )
        assert [(each.lane, each.executed) for each in lanes] == [("mails", 1), ("news", 2)]
        types = await statistics.read(
            session, "hours", _SINCE, apart=("kind",), of=FigureFilter(type="b")
        )
        assert [(each.kind, each.executed) for each in types] == [("command", 1), ("event", 2)]
        one = await statistics.read(
            session, "hours", _SINCE, of=FigureFilter(type="b", lane="news", kind="event")
        )
        assert [each.outcome("failed", "retry") for each in one] == [1]
        await roll_up(session)


@pytest.mark.usefixtures("within_an_hour")
async def test_span_includes_its_beginning_and_excludes_its_end(session: Session) -> None:
    for hours in range(1, 5):
        await write(session, counted(3600.0 * hours))
    await roll_up(session, 2)
    now = await session.connection.fetchval("select date_trunc('hour', now(), 'UTC')")
    since, until = now - timedelta(hours=3), now - timedelta(hours=1)
    found = await statistics.read(session, "hours", since, until)
    assert [each.at for each in found] == [since, since + timedelta(hours=1)]


async def test_minutes_of_a_tenant_are_refused(session: Session) -> None:
    with pytest.raises(ValueError, match="by hours and days"):
        await statistics.read(session, "minutes", _SINCE, of=FigureFilter(tenant="t"))


def test_days_are_cut_in_utc_at_any_time_of_the_year() -> None:
    """The spans of `lately` are cut in UTC, though the server may be in another time zone."""
    berlin = datetime.fromisoformat("2026-03-29T03:30:00+02:00")  # summer time begins
    since, spans = statistics._spans(berlin, timedelta(days=30), by_minute=True)
    assert since == datetime(2026, 2, 27, tzinfo=UTC)
    assert [name for name, _, _ in spans] == ["days"]


@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "Europe/Berlin", "Asia/Kolkata"])
async def test_hours_and_days_are_cut_in_utc(session: Session, zone: str) -> None:
    await session.connection.execute(f"set timezone = '{zone}'")
    # Both changes of summer time in Europe, and the hours around them.
    changes = [datetime(2026, 3, 29, tzinfo=UTC), datetime(2025, 10, 26, tzinfo=UTC)]
    hours = [day + timedelta(hours=hour) for day in changes for hour in range(-2, 26)]
    now = await session.connection.fetchval("select now()")
    await write(session, *(counted((now - each).total_seconds() - 1) for each in hours))
    await roll_up(session, 1000)
    found = await statistics.read(session, "hours", _SINCE)
    assert sorted(cast("datetime", each.at) for each in found) == sorted(hours)
    days: dict[datetime, int] = defaultdict(int)
    for each in await statistics.read(session, "days", _SINCE):
        days[cast("datetime", each.at)] += each.succeeded
    assert sorted(days.values()) == [2, 2, 2, 2, 24, 24], "no day in UTC has 23 or 25 hours"
    assert all(day.astimezone(UTC).hour == 0 for day in days)


_MOMENTS = st.datetimes(
    datetime(2020, 1, 1),  # noqa: DTZ001 - the zone is given apart
    datetime(2040, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@given(now=_MOMENTS, back=st.timedeltas(timedelta(minutes=1), timedelta(days=400)))
@pytest.mark.parametrize("by_minute", [True, False])
def test_the_pieces_of_a_span_fit_together(
    now: datetime, back: timedelta, by_minute: Literal[True, False]
) -> None:
    since, spans = statistics._spans(now, back, by_minute=by_minute)
    assert timedelta(0) <= now - back - since <= timedelta(days=1)
    assert spans[0][1] == since
    assert spans[-1][2] > now
    for (_, _, end), (_, begin, _) in itertools.pairwise(spans):
        assert end == begin
    for name, begin, end in spans:
        assert RESOLUTIONS.index(name) >= (0 if by_minute else 1)
        assert (begin - _SINCE) % _UNITS[name] == timedelta(0)
        assert name != "minutes" or end - begin < timedelta(hours=1)
