"""Full tables to query, with ten rows of each kind to work on.

    await leave_alone(database)
    await fill(database, rows=50_000, dead=20)
    await look_up(database, known := Known())
    ids = known.of("events big")

Owns how tables are filled and emptied. Promises that only the test vacuums and analyzes them.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from inboxd.model.lane import BEGINNING
from tests.support import Database, eventually
from tests.support.rows import daemon_session, join

WORKER = UUID(int=1)

_OTHERS = (
    *("dedup", "duplicates", "stats", "audit", "replays", "bodies", "key_rates"),
    *("stats_written", "stats_series", "stats_minutes", "stats_hours", "stats_days"),
    *("stats_tenants", "stats_tenant_hours", "stats_tenant_days"),
    *("batches", "batch_progress", "batch_changes", "batch_totals", "dependencies", "steps"),
    *("receipts", "held_receipts", "held_sources", "stream_positions", "sent_webhooks"),
)
# The indexes that the function index_partition makes.
_OF_DAYS = {
    "type": "type, (id + 0)",
    "tenant": "tenant, (id + 0)",
    "entity": "entity_type, entity_id, (id + 0)",
}
TABLES = ("events", "commands", "events_history", "commands_history")

_ROWS = """
insert into inboxd.events (type, run_at)
    select 'gone', now() - interval '2 hours' from generate_series(1, {rows} / 2);
insert into inboxd.events (type, run_at)
    select 'big', now() - interval '1 hour' from generate_series(1, {rows});
insert into inboxd.events (type) select 'few' from generate_series(1, 20);
insert into inboxd.events (type, status) select 'dead', 'failed' from generate_series(1, 20);
insert into inboxd.events (type, status) select 'other', 'failed' from generate_series(21, {dead});
delete from inboxd.events where type = 'gone';
insert into inboxd.commands (queue, type, run_at, expires_at)
    select 'big', 'gone', now() - interval '2 hours', now() - interval '1 hour'
      from generate_series(1, {rows} / 2);
insert into inboxd.commands (queue, type, run_at, causation_id, expires_at)
    select 'big', 'big', now() - interval '1 hour', gen_random_uuid(), now() + interval '1 day'
      from generate_series(1, {rows});
insert into inboxd.commands (queue, type, expires_at)
    select 'big', 'few', now() from generate_series(1, 20);
insert into inboxd.commands (queue, type, status, causation_id)
    select 'big', 'dead', 'failed', gen_random_uuid() from generate_series(1, {dead});
insert into inboxd.commands (queue, type, status, worker_id, fence)
    select 'big', 'held', 'running', '{worker}', 1 from generate_series(1, 10);
insert into inboxd.commands (queue, type, crashes, suspect_group)
    select 'big', 'few', 1, '{worker}' from generate_series(1, 20);
insert into inboxd.commands (queue, type, ordering_key)
    select 'keyed', 'keyed', 'k' || n % 1000 from generate_series(1, {rows}) n;
insert into inboxd.commands (queue, type, ordering_key, status, line_at)
    select 'keyed', 'dead key', 'd' || n, 'failed', now() from generate_series(1, 20) n;
insert into inboxd.commands (queue, type, ordering_key)
    select 'keyed', 'keyed', 'd' || n % 10 from generate_series(1, 20) n;
insert into inboxd.commands (queue, type, status, needs)
    select 'big', 'big', 'waiting', 1 from generate_series(1, {rows} / 2);
insert into inboxd.dedup (topic, source, key, event_id, seen_at)
    select 'default', '', n::text, gen_random_uuid(), now() - interval '1 hour'
      from generate_series(1, {rows}) n;
insert into inboxd.duplicates (topic, source, key, type, event_id, first_event, conflict)
    select 'default', '', n::text, 'few', gen_random_uuid(), gen_random_uuid(), false
      from generate_series(1, {rows}) n;
insert into inboxd.key_rates (queue, ordering_key, next_at)
    select 'keyed', 'k' || n, now() - interval '1 minute' from generate_series(1, {rows}) n
    on conflict do nothing;
insert into inboxd.limits (name) values ('big'), ('keyed') on conflict do nothing;
insert into inboxd.topics (name, mode, source)
    values ('lines', 'sequential', 'test'), ('long', 'sequential', 'test'),
           ('heads', 'sequential', 'test') on conflict do nothing;
insert into inboxd.events (topic, type, ordering_key)
    select 'lines', 'turn', 'k' || n % 1000 from generate_series(1, {rows}) n;
insert into inboxd.events (topic, type, ordering_key)
    select 'long', 'long', 'k' from generate_series(1, {rows} / 2);
update inboxd.events e set position = f.n, head = f.n = 1, status = case f.n when 1 then 'failed'
        else 'waiting' end from (select id, row_number() over (order by id) as n from inboxd.events
        where topic = 'long') f where e.id = f.id;
insert into inboxd.events (topic, type, ordering_key)
    select 'heads', 'turn', 'h' || n % 500 from generate_series(1, 1000) n;
update inboxd.events e set position = f.n, head = f.n = 1, run_at = case when id % 10 = 0
        then now() + interval '1 hour' else run_at end from (select id as i, row_number() over
        (partition by ordering_key order by id) as n from inboxd.events where topic = 'heads') f
    where e.id = f.i;
insert into inboxd.topics (name, mode, source)
    values ('chunked', 'batch', 'test'), ('fresh', 'batch', 'test') on conflict do nothing;
insert into inboxd.events (topic, type, ordering_key)
    select 'fresh', 'item', 'k' || n % 1000 from generate_series(1, {rows} / 2) n;
insert into inboxd.events (topic, type, ordering_key)
    select 'chunked', 'item', 'k' || n % 1000 from generate_series(1, 3000) n;
insert into inboxd.events (topic, type, ordering_key)
    select 'chunked', 'item', 'long' from generate_series(1, {rows} / 2) n;
update inboxd.events e set position = f.n, head = f.n = 1, run_at = now() + interval '1 hour'
    from (select id as i, row_number() over (partition by ordering_key order by id) as n
            from inboxd.events where topic = 'chunked') f where e.id = f.i;
delete from inboxd.commands where type = 'gone';
insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version, status,
        attempts, crashes, run_at, occurred_at, created_at, updated_at, finished_at)
    select 1000000000 + n, inboxd.new_uuid(), 'default', 'single', 'big', 1, 'succeeded', 1, 0,
           now(), now(), now(), now(), now() from generate_series(1, {rows}) n;
insert into inboxd.commands_history (id, command_id, queue, type, schema_version, priority, status,
        attempts, crashes, fence, run_at, cancel_requested, origin_kind, causation_id, created_at,
        updated_at, finished_at)
    select 1000000000 + n, inboxd.new_uuid(), 'big', 'big', 1, 0, 'succeeded', 1, 0, 1, now(),
           false, 'event', gen_random_uuid(), now(), now(), now() from generate_series(1, {rows}) n;
"""

# A day of samples every ten seconds, and 13 days of minutes; a day of 50 lanes. They are inserted
# once and not deleted: each time is sampled once, so a chart has no dead rows to pass over.
_ROWS += """
insert into inboxd.samples
    select at, n, n, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, of_minute
      from (select date_trunc('minute', now()) - n * interval '10 s' as at,
                   n, n % 6 = 0 as of_minute
              from generate_series(1, 120000) n where n < 8640 or n % 6 = 0) s order by at
    on conflict do nothing;
insert into inboxd.newest_sample values (true, now() - interval '10 s', '{{"totals": {{}}}}')
    on conflict do nothing;
insert into inboxd.sampled_lanes
    select date_trunc('hour', now()) - h * interval '1 hour', 'event', 'topic', 't' || n,
           minutes, minutes, minutes
      from generate_series(24, 0, -1) h, generate_series(1, 50) n,
           (select array_agg(m) as minutes from generate_series(1, 60) m) made
    on conflict do nothing;
insert into inboxd.stats select now() - n * interval '1 minute', '{worker}', 'event', 'big',
    'succeeded', 1, 1, 1 from generate_series(1, {rows}) n;
insert into inboxd.stats_series (kind, lane, type, outcome, after)
    select 'event', 'default', 't' || n, 'succeeded', '' from generate_series(1, 1000) n;
insert into inboxd.stats_minutes (at, series, count)
    select date_trunc('minute', now()) - n / 30 * interval '1 minute',
           (select min(id) from inboxd.stats_series) + n % 30, 1
      from generate_series(1, {rows} / 5) n;
insert into inboxd.stats_minutes (at, series, count)
    select now() - interval '91 days', n, 1 from generate_series(1, 500) n;
insert into inboxd.stats_hours (at, series, count)
    select date_trunc('hour', now()) - n / 30 * interval '1 hour',
           (select min(id) from inboxd.stats_series) + n % 30, 1
      from generate_series(1, {rows} / 5) n;
insert into inboxd.stats_days (at, series, count)
    select date_trunc('day', now()) - n / 30 * interval '1 day',
           (select min(id) from inboxd.stats_series) + n % 30, 1
      from generate_series(1, {rows} / 5) n;
insert into inboxd.stats_tenants select n::text, now() from generate_series(1, 50) n;
insert into inboxd.stats_tenant_hours (tenant, at, series, count)
    select n % 100, date_trunc('hour', now()) - n / 3000 * interval '1 hour',
           (select min(id) from inboxd.stats_series) + n / 100 % 30, 1
      from generate_series(1, {rows} / 5) n;
insert into inboxd.stats_tenant_days (tenant, at, series, count)
    select n % 100, date_trunc('day', now()) - n / 3000 * interval '1 day',
           (select min(id) from inboxd.stats_series) + n / 100 % 30, 1
      from generate_series(1, {rows} / 5) n;
insert into inboxd.stats_tenant_hours (tenant, at, series, count)
    select n, now() - interval '991 days', 1, 1 from generate_series(1, 500) n;
insert into inboxd.stats_tenant_days (tenant, at, series, count)
    select n, now() - interval '991 days', 1, 1 from generate_series(1, 500) n;
insert into inboxd.stats_written (minute, kind, lane, type, outcome, after, tenant, count)
    select now() - interval '3 days', 'event', 'default', 't' || n % 30, 'succeeded', '',
           n % 100, 1 from generate_series(1, {rows} / 5) n;
insert into inboxd.audit (at, actor, action, target, count)
    select now() - n * interval '1 minute', 'me', 'replay', 'events', 1
      from generate_series(-130000, -130000 + {rows} / 2) n;
insert into inboxd.audit (at, actor, action, target, count)
    select now() - interval '91 days', 'me', 'replay', 'events', 1 from generate_series(1, 500);
insert into inboxd.replays select 'event', n, n, now() - n * interval '1 s', 'me'
    from generate_series(1, {rows}) n;
insert into inboxd.replays select 'event', n, n, now() - interval '91 days', 'me'
    from generate_series(1, 500) n;
insert into inboxd.batches (name, status, created_at, finished_at, closed_at)
    select 'old', 'succeeded', now() - interval '91 days', now() - interval '91 days', now()
      from generate_series(1, 500);
insert into inboxd.batches (name, status, finished_at, closed_at)
    select 'new', 'succeeded', now(), now() from generate_series(1, {rows} / 2);
insert into inboxd.batch_changes (kind, type, tenant, status, rows)
    select 'batch', 't' || n % 1000, 'n' || n % 1000, 'pending', 1
      from generate_series(1, {rows}) n;
insert into inboxd.batch_totals (kind, apart, type, tenant, status, rows)
    select 'batch', 'both', 't' || n, 'n' || n, 'pending', n % 100
      from generate_series(1, {rows}) n on conflict do nothing;
insert into inboxd.dependencies (needs, waiting)
    select gen_random_uuid(), gen_random_uuid() from generate_series(1, {rows});
insert into inboxd.batch_progress (batch_id, succeeded)
    select 1000000000 + n % 3, 1 from generate_series(1, {rows}) n;
insert into inboxd.receipts (receipt_id, received_at, source, outcome, event_ids, body_bytes)
    select id, inboxd.receipt_time(id), 'big', 'stored', '{{}}', 0
      from (select inboxd.new_uuid() as id from generate_series(1, {rows})) ids;
insert into inboxd.held_sources values ('held') on conflict do nothing;
insert into inboxd.held_receipts (source, receipt_id, events)
    select 'held', inboxd.new_uuid(), jsonb_build_array(jsonb_build_object('event_id',
           gen_random_uuid(), 'type', 'few', 'payload', '{{}}')) from generate_series(1, {rows});
insert into inboxd.stream_positions (source, stream, position)
    select 'big', n::text, 1 from generate_series(1, 1000) n;
insert into inboxd.sent_webhooks (command_id, looked_at)
    select gen_random_uuid(), now() - n % 3 * interval '1 day' from generate_series(1, {rows}) n;
insert into inboxd.bodies (payload) select '{{}}' from generate_series(1, {rows});
with flow as (
    insert into inboxd.batches (name, kind, closed_at, size) values ('flow', 'workflow', now(), 20)
    returning id
), step as (
    insert into inboxd.commands (queue, type, batch_id, status, needs)
        select 'steps', 'step', flow.id, case when n < 11 then 'failed' else 'waiting' end,
               (n > 10)::integer
          from flow, generate_series(1, 20) n returning id, command_id, batch_id
), named as (
    insert into inboxd.steps (batch_id, name, member)
        select batch_id, 'step ' || id, command_id from step
)
insert into inboxd.dependencies (needs, waiting)
    select lag(command_id, 1, gen_random_uuid()) over (order by id), command_id from step;
"""


# Update rows in the order of ids, whatever the planner believes of the tables. If it believes them
# empty, nested loops compare each row with all others; a hash join has another order each time.
_MERGED = "set local enable_nestloop = off; set local enable_hashjoin = off; "


@dataclass
class Known:
    """Rows to work on, found once the tables are full; before that, placeholders."""

    ids: dict[str, list[int]] = field(default_factory=dict)
    uuids: dict[str, UUID] = field(default_factory=dict)
    worker: UUID = WORKER
    last: tuple[float, int] = (BEGINNING, 0)
    flow: int = 0
    steps: list[UUID] = field(default_factory=lambda: [UUID(int=7)])

    def of(self, name: str) -> list[int]:
        """Ten rows of a table and type, such as "events big"."""
        return self.ids.get(name, [1, 2, 3])

    def one(self, table: str) -> UUID:
        """The uuid of one row of the table."""
        return self.uuids.get(table, UUID(int=7))


async def index_today(database: Database) -> None:
    """Give today the indexes of past days, so that plans can choose them."""
    for table in ("events_history", "commands_history"):
        today = f"{table}_{datetime.now(UTC):%Y%m%d}"
        for name, columns in _OF_DAYS.items():
            await database.execute(f"create index {today}_{name} on inboxd.{today} ({columns})")


async def leave_alone(database: Database) -> None:
    """Switch autovacuum off, however long the test takes.

    Waits for a running autovacuum, since pages are counted over all sessions.
    """
    tables = await database.fetch(
        "select oid::regclass::text from pg_class"
        " where relkind = 'r' and relnamespace = 'inboxd'::regnamespace"
    )
    for (table,) in tables:
        await database.execute(f"alter table {table} set (autovacuum_enabled = off)")
    await eventually(partial(_is_alone, database), 120)


async def _is_alone(database: Database) -> bool:
    """Whether no autovacuum worker runs in this database."""
    there = await database.fetchval(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and backend_type = 'autovacuum worker'"
    )
    return bool(there == 0)


async def look_up(database: Database, known: Known) -> None:
    """Find the rows to work on."""
    for name in (
        "events big",
        "events dead",
        "events turn",
        "events long",
        "commands held",
        "commands dead",
        "commands few",
        "commands keyed",
        "commands step",
        "events few",
    ):
        table, type_ = name.split()
        find = f"select id from inboxd.{table} where type = $1 and crashes = 0"
        find += " order by id limit 10"
        known.ids[name] = [row[0] for row in await database.fetch(find, type_)]
    find = "select id from inboxd.events where topic = 'chunked' and ordering_key = 'long' limit 10"
    known.ids["events chunked"] = [row[0] for row in await database.fetch(find)]
    for table in TABLES:
        key = "event_id" if table.startswith("events") else "command_id"
        find = f"select {key} from inboxd.{table} where type = 'big' limit 1 offset 100"
        known.uuids[table] = await database.fetchval(find)
    find = "select receipt_id from inboxd.receipts limit 1 offset 100"
    known.uuids["receipts"] = await database.fetchval(find)
    find = "select b.id, array_agg(s.member) from inboxd.steps s join inboxd.batches b"
    find += " on b.id = s.batch_id where b.name = 'flow' group by b.id order by b.id desc limit 1"
    ((known.flow, known.steps),) = await database.fetch(find)
    async with daemon_session(database) as session:
        known.worker = await join(session)
        row = await session.connection.fetchrow(
            "select date_part('epoch', run_at), id from inboxd.events where type = 'big' "
            "order by id desc limit 1"
        )
    assert row is not None
    known.last = (row[0], row[1])


async def fill(database: Database, rows: int, dead: int) -> None:
    """Insert `rows` rows of each large kind, `dead` dead letters, and a few rows of all others."""
    text = _ROWS.format(rows=rows, dead=dead, worker=WORKER)
    for statement in text.strip(";\n").split(";\n"):
        merged = _MERGED if statement.startswith("update") else ""
        await database.execute(merged + statement)


async def empty(database: Database) -> int:
    """Delete all inserted rows; returns their number."""
    deleted = 0
    for table in (*TABLES, *_OTHERS):
        tag = await database.execute(f"delete from inboxd.{table}")
        deleted += int(tag.removeprefix("DELETE "))
    return deleted
