"""History of millions of rows over many days, inserted fast: for tests of what reads it.

    await fill(database, "events", days=60, rows_a_day=rows_a_day(25_000))
    await count_days(database)

Promises: ids are in order of creation; on disk the order differs within some hundred rows, as for
commands that run in parallel; one row of 997 is settled two days late. Common, rare and absent
values are those of `_ROWS`. Each partition but today's is vacuumed and analyzed. With
INBOXD_TEST_ROWS_A_DAY=166667, sixty days have ten million rows.
"""

import os
from datetime import UTC, date, datetime, timedelta

import anyio

from inboxd.store import census
from inboxd.store.census import DayCount
from inboxd.store.wakeups import HotTable
from tests.support.databases import Database
from tests.support.rows import daemon_session

# Ten million rows have about a hundred rare ones.
RARE = 100_003
_LATE = 997
_CHILDREN = 10  # one event of this many enqueued a command

_ROWS = """
select {row_id} as id, {row_id} * 10 as uuid_number, 'd' || {row_id} % 12 as lane,
       case when {row_id} % {rare} = 7 then 'rare.type' when {row_id} % 2 = 0 then 'order.created'
            else 'type.' || {row_id} % 30 end as type,
       case when {row_id} % {rare} = 11 then 'tiny' when {row_id} % 5 < 2 then 'acme'
            else 't' || {row_id} % 1000 end as tenant,
       'order' as entity_type, ({row_id} / 3)::text as entity_id,
       case when {row_id} % {rare} = 13 then 'cancelled' when {row_id} % 20 = 3 then 'dismissed'
            else 'succeeded' end as status,
       case when {row_id} % {rare} = 5 then '[{{"error": "KeyError: once in a blue moon"}}]'
            when {row_id} % 20 = 3 then '[{{"error": "TimeoutError: no answer"}}]' end::jsonb
           as errors,
       jsonb_build_object('order_id', {row_id} / 3, 'shop', {row_id} % 4,
                          'rare', {row_id} % {rare} = 17, 'note', repeat('n', 60)) as payload,
       {created} as created, {created} + make_interval(secs => 0.2 + {row_id} % 7) as finished
"""
_INSERT = {
    "events": """
insert into inboxd.{part} (id, event_id, topic, mode, type, schema_version, tenant, entity_type,
    entity_id, payload, status, attempts, crashes, run_at, errors, occurred_at, created_at,
    updated_at, finished_at, duration)
select id, lpad(to_hex(id), 32, '0')::uuid, lane, 'single', type, 1, tenant, entity_type, entity_id,
       payload, status, 1, 0, created, errors, created, created, finished,
       finished + {late}, interval '5 ms'
""",
    "commands": """
insert into inboxd.{part} (id, command_id, queue, type, schema_version, tenant, entity_type,
    entity_id, payload, priority, status, attempts, crashes, fence, run_at, errors, created_at,
    cancel_requested, origin_kind, origin_id, causation_id, updated_at, finished_at, duration)
select id, lpad(to_hex(id), 32, 'c')::uuid, lane, type, 1, tenant, entity_type, entity_id, payload,
       0, status, 1, 0, 1, created, errors, created, false, 'event', id * {children},
       lpad(to_hex(id * {children}), 32, '0')::uuid, finished, finished + {late}, interval '5 ms'
""",
}


def rows_a_day(some: int) -> int:
    """The rows per day: `some`, unless INBOXD_TEST_ROWS_A_DAY is set."""
    return int(os.environ.get("INBOXD_TEST_ROWS_A_DAY", some))


async def fill(database: Database, table: HotTable, days: int, rows_a_day: int) -> int:
    """Insert rows for this many days, the last of them today; return the highest id."""
    today = datetime.now(UTC).date()
    limit = anyio.CapacityLimiter(2)
    async with anyio.create_task_group() as group:
        for number in range(days):
            day = today - timedelta(days=days - 1 - number)
            group.start_soon(_fill_day, database, table, day, number, rows_a_day, limit)
    highest = days * rows_a_day
    await database.execute(
        f"select setval(pg_get_serial_sequence('inboxd.{table}', 'id'), {highest})"
    )
    return highest


async def count_days(database: Database) -> None:
    """Take the census of all past days as the leader does, without its rests."""
    async with daemon_session(database) as session:
        for day in await census.uncounted(session):
            if day.over:
                began, found = await census.begin(session, day.part, day.parent), DayCount()
                for stretch in census.stretches(day):
                    await census.count(session, day, stretch, found)
                await census.end(session, day, began, found)


async def _fill_day(
    database: Database,
    table: HotTable,
    day: date,
    number: int,
    rows: int,
    limit: anyio.CapacityLimiter,
) -> None:
    """Fill one partition: rows of its day that are not late, and late rows of two days before."""
    parent = f"{table}_history"
    part, today = f"{parent}_{day:%Y%m%d}", datetime.now(UTC).date()
    async with limit, database.connect() as session:
        await session.execute(
            f"drop table if exists inboxd.{part};"
            f"create table inboxd.{part}"
            f" (like inboxd.{parent} including defaults including constraints)"
        )
        for begun, late in ((number, "interval '0'"), (number - 2, "interval '2 days'")):
            if begun < 0:
                continue
            begin = day - timedelta(days=number - begun)
            seconds = 86_000.0
            if begin == today:
                now = datetime.now(UTC)
                seconds = (now - now.replace(hour=0, minute=0, second=0)).total_seconds() * 0.99
            created = (
                f"timestamptz '{begin} 00:00+00' + make_interval(secs => n * {seconds / rows})"
            )
            chosen = f"(n + {begun * rows}) % {_LATE} {'<>' if begun == number else '='} 1"
            made = _ROWS.format(row_id=f"(n + {begun * rows})", rare=RARE, created=created)
            insert = _INSERT[table].format(part=part, late=late, children=_CHILDREN)
            await session.execute(
                f"{insert} from generate_series(1, {rows}::bigint) n"
                f" cross join lateral ({made}) made where {chosen} order by n + n * 7919 % 64"
            )
        # Indexes are made after the rows, which is quicker than row by row.
        low, high = f"{day} 00:00+00", f"{day + timedelta(days=1)} 00:00+00"
        await session.execute(
            f"alter table inboxd.{parent} attach partition inboxd.{part}"
            f" for values from ('{low}') to ('{high}')"
        )
        if day != today:
            await session.execute(f"vacuum analyze inboxd.{part}")
