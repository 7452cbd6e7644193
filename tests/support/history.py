"""History as it is after months: partitions of past days, with rows.

    await make_day(database, 90)
    await settle(database, 90, rows=1000)

Promises: rows are spread over their day, and look like those that settlements write.
"""

from datetime import UTC, datetime, timedelta

from tests.support.databases import Database

PARENTS = ("bodies", "events_history", "commands_history")

_SETTLED = {
    "events_history": (
        "insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version,"
        " payload, status, attempts, crashes, run_at, body_id, body_at,"
        " occurred_at, created_at, updated_at, finished_at)"
        " select nextval(pg_get_serial_sequence('inboxd.events', 'id')),"
        " inboxd.new_uuid(), 'default', 'single', $1, 1,"
        " case when $4::bigint is null then jsonb_build_object('n', n) end,"
        " 'succeeded', 1, 0, at, $4, $5, at, at, at, at"
    ),
    "commands_history": (
        "insert into inboxd.commands_history (id, command_id, queue, type, schema_version,"
        " payload, priority, status, attempts, crashes, fence, run_at, cancel_requested,"
        " origin_kind, body_id, body_at, created_at, updated_at, finished_at, awaited)"
        " select nextval(pg_get_serial_sequence('inboxd.commands', 'id')), inboxd.new_uuid(),"
        " 'default', $1, 1, case when $4::bigint is null then jsonb_build_object('n', n) end,"
        " 0, 'succeeded', 1, 0, 1, at, false, 'api',"
        " $4, $5, at, at, at, false"
    ),
}


def day(days: int) -> str:
    """The suffix of a partition's name, for a day this many days ago."""
    return f"{datetime.now(UTC) - timedelta(days=days):_%Y%m%d}"


async def make_day(database: Database, days: int, *parents: str) -> None:
    """Create the partitions of a day this many days ago; of all tables unless some are named."""
    low = datetime.now(UTC).date() - timedelta(days=days)
    for parent in parents or PARENTS:
        await database.execute(
            f"create table inboxd.{parent}{day(days)} (like inboxd.{parent} including all);"
            f"alter table inboxd.{parent} attach partition inboxd.{parent}{day(days)}"
            f" for values from ('{low} 00:00+00') to ('{low + timedelta(days=1)} 00:00+00')"
        )


async def settle(
    database: Database,
    days: int,
    rows: int,
    type_: str = "test.noop",
    parent: str = "events_history",
    body: tuple[int, datetime] = (0, datetime(1970, 1, 1, tzinfo=UTC)),
) -> None:
    """Insert rows settled this many days ago. body: the id and creation time of a large payload."""
    body_id, body_at = body if body[0] else (None, None)
    await database.execute(
        _SETTLED[parent]
        + " from (select n, (date_trunc('day', now() at time zone 'utc') at time zone 'utc')"
        " - make_interval(days => $2) + n * interval '1 s' as at"
        " from generate_series(1, $3::int) n) t",
        *(type_, days, rows, body_id, body_at),
    )


async def store_body(database: Database, days: int, text: str) -> tuple[int, datetime]:
    """Insert a large payload created this many days ago; return its id and creation time."""
    (row,) = await database.fetch(
        "insert into inboxd.bodies (created_at, payload) values (now() - make_interval(days => $1),"
        " jsonb_build_object('text', $2::text)) returning id, created_at",
        *(days, text),
    )
    return row[0], row[1]


async def parts(database: Database) -> set[str]:
    """The tables that are or were partitions, of days before yesterday."""
    rows = await database.fetch(
        r"select relname from pg_class where relkind = 'r'"
        r" and relnamespace = 'inboxd'::regnamespace and relname ~ '_\d{8}$'"
        r" and right(relname, 8) < to_char(now() at time zone 'utc' - interval '1 day', 'YYYYMMDD')"
    )
    return {row[0] for row in rows}
