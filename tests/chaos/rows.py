"""Invariants of rows at the end: one query for each; its rows break it."""

from collections.abc import Mapping

ROWS: Mapping[str, str] = {
    "nothing accepted is lost": """
        select p.kind, p.key, p.script - 'pad' as script from chaos_produced p
        where p.kind in ('event', 'command')
          and not exists (select from chaos_rows r where r.kind = p.kind and r.root = p.key)""",
    "rolled-back rows are not there": """
        select kind, place, key, type from chaos_rows r
        where parent is null and origin_kind is distinct from 'schedule'
          and coalesce(source, '') not like 'schedule %'
          and not exists (select from chaos_produced p where p.kind = r.kind and p.key = r.root)""",
    "a row is in one place, once": """
        select kind, root, array_agg(place) as places, array_agg(id) as ids
        from chaos_rows group by kind, root having count(*) > 1
        union all
        select kind, key, array_agg(place), array_agg(id)
        from chaos_all group by kind, key having count(*) > 1
        union all
        select kind, null, array_agg(place), array_agg(id)
        from chaos_all group by kind, id having count(*) > 1""",
    "a payload is the written one": """
        select r.kind, r.key, r.type
        from chaos_produced p join chaos_rows r on r.kind = p.kind and r.root = p.key
        where r.payload is distinct from p.script""",
    "each row is settled as its script says": """
        select r.kind, r.place, r.id, r.key, r.type, r.status, r.attempts, r.crashes,
               r.errors -> -1 as last_error
        from chaos_rows r left join chaos_produced p on p.kind = r.kind and p.key = r.root
        where r.place || ' ' || r.status <> all (
              case coalesce(p.expect, r.script ->> 'expect', 'succeeded')
              when 'failed' then array['hot failed']
              when 'maybe' then array['history succeeded', 'history cancelled']
              else array['history succeeded'] end)""",
    "every effect exactly once": """
        with expected as (
            select case type when 'testplugin.later' then 'later' else kind end as kind,
                   case type when 'testplugin.later' then (payload -> 'event' ->> 'event_id')::uuid
                             else key end as key,
                   sum((status = 'succeeded')::int) as times
            from chaos_rows
            where type not in ('chaos.quick', 'chaos.later', 'chaos.light', 'chaos.bad_light',
                               'chaos.process')
            group by 1, 2
        ), seen as (select kind, key, count(*) as times from chaos_ledger group by 1, 2)
        select kind, key, e.times as expected, s.times as seen
        from expected e full join seen s using (kind, key)
        where coalesce(e.times, 0) <> coalesce(s.times, 0)""",
    "every effect outside the database at least once": """
        select key, type, attempts from chaos_rows
        where type = 'chaos.light' and status = 'succeeded'
          and key not in (select key from chaos_traces)""",
    "every child once, and only of rows that succeeded": """
        with expected as (
            select key, type, status, case when status <> 'succeeded' then 0
                   when type = 'chaos.later' then 1
                   else coalesce(jsonb_array_length(script -> 'children'), 0)
                      + coalesce((script ->> 'sends')::int, 0) end as children
            from chaos_rows
        ), seen as (
            select parent as key, array_agg(n order by n) as numbers
            from (select parent, case when type = 'testplugin.later' then 0
                         else coalesce((script ->> 'n')::int, 0) end as n from chaos_rows) numbered
            where parent is not null group by 1
        )
        select key, type, status, children, numbers from expected full join seen using (key)
        where coalesce(numbers, '{}')
              is distinct from array(select generate_series(0, children - 1))""",
    "a child's lineage leads to its parent": """
        select c.id, c.key, c.origin_kind, c.origin_id, c.causation_id, c.correlation_id
        from chaos_rows c
        where (c.parent is not null or c.origin_kind not in ('api', 'batch', 'schedule'))
          and not exists (
            select from chaos_rows p
            left join inboxd.batches b on c.origin_kind = 'batch' and b.id = c.origin_id
                  and b.batch_id = c.causation_id
            where (c.kind = 'event' or p.kind = coalesce(b.origin_kind, c.origin_kind)
                   and p.id = coalesce(b.origin_id, c.origin_id))
              and p.key = c.parent
              and c.correlation_id = coalesce(p.correlation_id, p.key::text))""",
    "no failure without a cause in the script": """
        select kind, key, type, attempts, crashes, script - 'pad' - 'children' as script,
               error ->> 'error' as error
        from chaos_all, jsonb_array_elements(errors) as error
        where error ->> 'error'
              !~ '^(AsTold|WorkerDied|HandlerTimeout|LockNotAvailableError|QueryCanceledError): '
          and not (script ? 'refuses' and error ->> 'error' ~ '^Reject: as told')
          and not (script ? 'heals' and error ->> 'error' ~ '^Reject: until mended')
          and not (script ? 'dedup' and error ->> 'error' ~ '^DedupConflict: ')""",
    "ids are not ahead of their sequences": """
        select 'events' as place from chaos_all where kind = 'event'
        having max(id) > pg_sequence_last_value('inboxd.events_id_seq')
        union all
        select 'commands' from chaos_all where kind = 'command'
        having max(id) > pg_sequence_last_value('inboxd.commands_id_seq')""",
}
