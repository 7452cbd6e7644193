"""The size of a quarter of a year of statistics, and the blocks that a chart of it reads.

Four workers handle thirty types in every minute. The leader rolls their rows up as it does every
few seconds, so that rows are updated as often as in use.
"""

from datetime import UTC, datetime, timedelta

import pytest

from inboxd.store import purging, statistics
from inboxd.store.connections import ERRAND_PLANS
from inboxd.store.session import Session, connect
from inboxd.store.statistics import FigureFilter, Resolution
from tests.support import Database
from tests.support.plans import told, touched_by
from tests.support.rows import daemon_session, settings_of

pytestmark = pytest.mark.anyio

MEGABYTES = 200
BLOCKS = 2_000
_TYPES, _WORKERS, _DAYS = 30, 4, 90
# From this hour of the last week on, each minute is rolled up alone; before, 15 minutes together.
_CLOSELY = 160

# The counts of one worker, type and minute: some runs take milliseconds, some a second, and some of
# them fail.
_WRITE = f"""
insert into inboxd.stats_written (minute, kind, lane, type, outcome, after, count, run_total,
       run_maximum, run_histogram, wait_total, wait_maximum, wait_histogram,
       completion_total, completion_maximum, completion_histogram)
select $1::timestamptz + n * $2::interval, case when t % 2 = 0 then 'event' else 'command' end,
       'lane ' || t % 5, 'school.some_event_' || t, o, a, 20, 1.25, random(),
       array_fill(0, array[t % 6]) || '{{1,5,9,5,1}}'::int[], 2.5, random(),
       array_fill(0, array[1 + t % 5]) || '{{1,5,9,5,1}}'::int[],
       case o when 'succeeded' then 3.5 end, case o when 'succeeded' then random() end,
       case o when 'succeeded' then array_fill(0, array[3 + t % 5]) || '{{1,5,9,5,1}}'::int[] end
  from generate_series(0, $3::int - 1) n, generate_series(1, {_TYPES}) t, generate_series(1, $4) w
 cross join (values ('succeeded', '', 1), ('retried', '', 20), ('succeeded', 'retry', 20))
       as of(o, a, every)
 where (n + t) % every = 0
"""


async def _fill(session: Session, now: datetime) -> None:
    """Write the minutes of the last week, and hours of the days before."""
    first = now - timedelta(days=_DAYS)
    late = now - timedelta(days=7)
    hours = (late - first) // timedelta(hours=1)
    for hour in range(0, hours, 6):
        for _ in range(4):  # each of these hours is updated a few times
            since = first + hour * timedelta(hours=1)
            await session.connection.execute(
                _WRITE, since, timedelta(hours=1), min(6, hours - hour), 1
            )
            await _roll_up(session)
        if hour % 24 == 0:
            await purging.remove(session, "stats_minutes", timedelta(days=7), 10**6)
            await _vacuum(session)
    for hour in range(7 * 24):
        since = late + hour * timedelta(hours=1)
        minutes = 1 if hour >= _CLOSELY else 15
        for minute in range(0, 60, minutes):
            at = since + minute * timedelta(minutes=1)
            await session.connection.execute(_WRITE, at, timedelta(minutes=1), minutes, _WORKERS)
            await _roll_up(session)
        await _vacuum(session)


async def _roll_up(session: Session) -> None:
    more = True
    while more:
        async with session.transaction():
            more = await statistics.roll_up(session, 2_000) == 2_000


async def _vacuum(session: Session) -> None:
    """Vacuum as autovacuum does every few minutes."""
    tables = ("written", "minutes", "hours", "days")
    await session.connection.execute(
        "vacuum " + ", ".join(f"inboxd.stats_{table}" for table in tables)
    )


async def _blocks(
    session: Session, resolution: Resolution, since: datetime, of: FigureFilter
) -> tuple[int, int]:
    """The number of blocks that a chart reads, and of its points."""
    await statistics.read(session, resolution, since, of=of)  # planning reads the catalogue
    found: list[statistics.Figures] = []

    async def read() -> None:
        found.extend(await statistics.read(session, resolution, since, of=of))

    nodes = await told(session, read())
    return max(map(touched_by, nodes)), len(found)


async def _blocks_of_trends(session: Session, resolution: Resolution, since: datetime) -> int:
    """The number of blocks that the trends of some types read, beside those of all others."""
    named = [("event", f"school.some_event_{n}") for n in range(20)]

    async def read() -> None:
        await statistics.executions(session, resolution, since, types=named)

    await read()
    return max(map(touched_by, await told(session, read())))


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_quarter_of_a_year_is_small_and_read_quickly(database: Database) -> None:
    async with daemon_session(database) as session:
        now = (await session.connection.fetchval("select now()")).replace(
            minute=0, second=0, microsecond=0
        )
        await _fill(session, now)
        size = await session.connection.fetchval(
            "select sum(pg_total_relation_size(oid))::bigint from pg_class"
            " where relnamespace = 'inboxd'::regnamespace and relname like 'stats%'"
            " and relkind = 'r'"
        )
    operator = await connect(settings_of(database), "operator", plans=ERRAND_PLANS)
    try:
        quarter = datetime.combine(now - timedelta(days=_DAYS - 1), datetime.min.time(), UTC)
        every, one = FigureFilter(), FigureFilter(type="school.some_event_7")
        charts: dict[tuple[Resolution, timedelta], int] = {
            ("days", timedelta(days=_DAYS)): _DAYS,
            ("hours", timedelta(days=7)): 7 * 24,
            ("minutes", timedelta(hours=6)): 6 * 60,
        }
        for (resolution, back), points in charts.items():
            since = max(quarter, now - back) if resolution == "days" else now - back
            for of, types in ((every, _TYPES), (one, 1)):
                blocks, found = await _blocks(operator, resolution, since, of)
                assert points * types * 0.97 < found <= (points + 1) * types
                assert blocks < BLOCKS, (resolution, back, types)
            assert await _blocks_of_trends(operator, resolution, since) < BLOCKS
    finally:
        operator.connection.terminate()
    assert size < MEGABYTES * 1_000_000
