"""Holds the promises against what a run left behind.

Each invariant is a query for the rows that break it. The truth of what was accepted is
`chaos_produced`, written in the producers' own transactions; of what took effect, `chaos_ledger`,
written in the handlers'; of what was to happen, the script in each row.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from tests.support import Database

TABLES = """
create table chaos_produced (kind text, key uuid, script jsonb);
create table chaos_ledger (kind text, key uuid);
create table chaos_traces (key uuid);
"""

_SHOWN = 5

# Every row wherever it is, with its payload wherever that is; made when all is quiet.
_GATHER = """
create table chaos_rows as
select *, case type when 'testplugin.later' then payload -> 'payload' else payload end as script
from (
    select 'event' as kind, 'hot' as place, id, event_id as key, type, status, attempts, crashes,
           errors, null as origin_kind, null::bigint as origin_id, correlation_id, causation_id,
           coalesce(payload, (select b.payload from inboxd.bodies b
                              where b.id = body_id and b.created_at = body_at)) as payload
    from inboxd.events
    union all
    select 'event', 'history', id, event_id, type, status, attempts, crashes,
           errors, null, null, correlation_id, causation_id,
           coalesce(payload, (select b.payload from inboxd.bodies b
                              where b.id = body_id and b.created_at = body_at))
    from inboxd.events_history
    union all
    select 'command', 'hot', id, command_id, type, status, attempts, crashes,
           errors, origin_kind, origin_id, correlation_id, causation_id,
           coalesce(payload, (select b.payload from inboxd.bodies b
                              where b.id = body_id and b.created_at = body_at))
    from inboxd.commands
    union all
    select 'command', 'history', id, command_id, type, status, attempts, crashes,
           errors, origin_kind, origin_id, correlation_id, causation_id,
           coalesce(payload, (select b.payload from inboxd.bodies b
                              where b.id = body_id and b.created_at = body_at))
    from inboxd.commands_history
) as everywhere
where type like 'chaos.%' or type = 'testplugin.later';
create index on chaos_rows (kind, key);
create index on chaos_rows (kind, id);
create index on chaos_rows (causation_id);
analyze chaos_rows;
"""

_INVARIANTS: Mapping[str, str] = {
    "nothing accepted is lost": """
        select p.kind, p.key, p.script - 'pad' as script from chaos_produced p
        where not exists (select from chaos_rows r where r.kind = p.kind and r.key = p.key)""",
    "what rolled back is not there": """
        select kind, place, key, type from chaos_rows r
        where (kind = 'event' or origin_kind = 'api')
          and not exists (select from chaos_produced p where p.kind = r.kind and p.key = r.key)""",
    "a row is in one place, once": """
        select kind, key, array_agg(place) as places, array_agg(id) as ids
        from chaos_rows group by kind, key having count(*) > 1
        union all
        select kind, null, array_agg(place), array_agg(id)
        from chaos_rows group by kind, id having count(*) > 1""",
    "a payload is what was written": """
        select r.kind, r.key, r.type from chaos_produced p join chaos_rows r using (kind, key)
        where r.payload is distinct from p.script""",
    "everything is settled, as its script says": """
        select kind, place, id, key, type, status, attempts, crashes, errors -> -1 as last_error
        from chaos_rows
        where place || ' ' || status <> case when script ->> 'expect' = 'failed'
              then 'hot failed' else 'history succeeded' end""",
    "every effect exactly once": """
        with expected as (
            select case type when 'testplugin.later' then 'later' else kind end as kind,
                   case type when 'testplugin.later' then (payload -> 'event' ->> 'event_id')::uuid
                             else key end as key,
                   sum((status = 'succeeded')::int) as times
            from chaos_rows
            where type in ('chaos.fact', 'chaos.thread_fact', 'chaos.bad_fact', 'chaos.act',
                           'chaos.thread', 'chaos.bad_act', 'testplugin.later')
            group by 1, 2
        ), seen as (select kind, key, count(*) as times from chaos_ledger group by 1, 2)
        select kind, key, e.times as expected, s.times as seen
        from expected e full join seen s using (kind, key)
        where coalesce(e.times, 0) <> coalesce(s.times, 0)""",
    "every effect outside the database at least once": """
        select key, type, attempts from chaos_rows
        where type = 'chaos.light' and status = 'succeeded'
          and key not in (select key from chaos_traces)""",
    "every child once, and only of what succeeded": """
        with expected as (
            select key, type, status, case when status <> 'succeeded' then 0
                   when type = 'chaos.later' then 1
                   else coalesce(jsonb_array_length(script -> 'children'), 0) end as children
            from chaos_rows
        ), seen as (
            select causation_id as key,
                   array_agg(coalesce((script ->> 'n')::int, 0) order by script ->> 'n') as numbers
            from chaos_rows where causation_id is not null group by 1
        )
        select key, type, status, children, numbers from expected full join seen using (key)
        where coalesce(numbers, '{}')
              is distinct from array(select generate_series(0, children - 1))""",
    "a child's lineage leads to its parent": """
        select c.id, c.key, c.origin_kind, c.origin_id, c.causation_id, c.correlation_id
        from chaos_rows c
        where (c.causation_id is not null or c.origin_kind <> 'api') and not exists (
            select from chaos_rows p
            where p.kind = c.origin_kind and p.id = c.origin_id and p.key = c.causation_id
              and c.correlation_id = coalesce(p.correlation_id, p.key::text))""",
    "no failure that nobody asked for": """
        select kind, key, type, attempts, crashes, script - 'pad' - 'children' as script,
               error ->> 'error' as error
        from chaos_rows, jsonb_array_elements(errors) as error
        where error ->> 'error'
              !~ '^(AsTold|WorkerDied|HandlerTimeout|LockNotAvailableError|QueryCanceledError): '
          and not (script ? 'refuses' and error ->> 'error' ~ '^Reject: as told')""",
    "ids are not ahead of their sequences": """
        select 'events' as place from chaos_rows where kind = 'event'
        having max(id) > pg_sequence_last_value('inboxd.events_id_seq')
        union all
        select 'commands' from chaos_rows where kind = 'command'
        having max(id) > pg_sequence_last_value('inboxd.commands_id_seq')""",
}

_FIGURES = """
select (select count(*) from chaos_produced where kind = 'event') as events_accepted,
       (select count(*) from chaos_produced where kind = 'command') as commands_accepted,
       (select count(*) from chaos_rows where kind = 'command' and origin_kind <> 'api')
           as children,
       (select count(*) from chaos_rows where status = 'failed') as dead_letters_asked_for,
       (select count(*) from chaos_rows where crashes > 0) as rows_that_crashed,
       (select sum(attempts) from chaos_rows) as attempts,
       (select sum(count) from inboxd.stats
         where outcome <> 'deferred' and (type like 'chaos.%' or type = 'testplugin.later'))
           as attempts_in_statistics,
       (select count(*) from chaos_traces) - (select count(distinct key) from chaos_traces)
           as effects_outside_repeated
"""
_ERRORS = """
select substring(error ->> 'error' from '^[A-Za-z]+') || ', ' || kind as error, count(*)
from chaos_rows, jsonb_array_elements(errors) as error group by 1 order by 2 desc
"""


@dataclass(frozen=True)
class Violation:
    """A promise that did not hold, and what shows it."""

    promise: str
    rows: tuple[str, ...]

    def __str__(self) -> str:
        """For a person: the first rows; all of them are in the folder."""
        more = len(self.rows) - _SHOWN
        lines = [f"VIOLATED: {self.promise}", *(f"    {row}" for row in self.rows[:_SHOWN])]
        return "\n".join([*lines, f"    … and {more} more"] if more > 0 else lines)


async def judge(database: Database, traced: Sequence[str]) -> list[Violation]:
    """What the tables say, once everything is quiet; `traced` has the keys of traces outside."""
    async with database.connect() as connection:
        records = [(key,) for key in traced]
        await connection.copy_records_to_table("chaos_traces", records=records)
        await connection.execute(_GATHER, timeout=120)
        found = []
        for promise, query in _INVARIANTS.items():
            rows = await connection.fetch(query, timeout=120)
            if rows:
                found.append(Violation(promise, tuple(map(show, rows))))
    return found


async def figures(database: Database) -> dict[str, object]:
    """What a run amounted to, for its last lines."""
    [row] = await database.fetch(_FIGURES)
    errors = await database.fetch(_ERRORS)
    return {**dict(row), "errors": {row["error"]: row["count"] for row in errors}}


def show(row: asyncpg.Record) -> str:
    """One row in one line."""
    return json.dumps(dict(row), default=str)
