"""Invariants of lines, chunks, queues, keys and schedules: one query for each; its rows break it.

The order is that of the ledger's lines: a key has one row in flight, so the row that writes first
commits first. For limits, a command runs from its claim to its end, by the commands table
(`chaos_moves`); later work of a stopped worker is fenced, and does not count.
"""

from collections.abc import Mapping

from inboxd_testplugin.chaos import CHUNK
from tests.chaos.fleet import AT_ONCE, PER_SECOND

# A trace with its row and its producer's wave; rows of one wave are in the order of ids. Rows that
# leave their line come later and are left out: replayed ones, failed ones of a chunk, and events of
# a chunk that ran at a death, which run alone.
_TRAIL = """
    traces as (
        select l.place, l.line, l.chunk, l.began, l.ended, r.kind, r.lane, r.id, r.key, r.script,
               r.errors, p.producer,
               array[p.wave, r.id] as written, r.attempts,
               count(*) over (partition by l.chunk) as size
        from chaos_ledger l
        join chaos_rows r on r.kind = l.kind and r.key = l.key
        left join chaos_produced p on p.kind = r.kind and p.key = r.root
        where l.line is not null
          and not (r.lane = 'chaos_skips' and r.script ? 'heals')
          and not (r.lane = 'chaos_chunks' and (r.errors is not null or r.crashes > 0))
    ), trail as (select * from traces where chunk is null or size > 1)"""
# The time from which, and until which, a command had a status.
_SPANS = """
    spans as (
        select *, lead(at) over (partition by id order by place) as until from chaos_moves
    )"""

LANES: Mapping[str, str] = {
    "events of a line, and chunks of a key, take effect in the order of ids": f"""
        with {_TRAIL}
        select * from (
            select line, chunk, id, key, place, attempts,
                   lag(id) over (partition by line order by place) as before
            from trail where kind = 'event') steps
        where before > id""",
    "rows of one producer in a line take effect in the order of writing": f"""
        with {_TRAIL}
        select * from (
            select kind, line, producer, id, key, place, written,
                   lag(written) over (partition by kind, line, producer order by place) as before
            from trail where producer is not null) steps
        where before > written""",
    "two commands of a key never run at once": f"""
        with {_TRAIL}
        select * from (
            select line, id, key, began, ended,
                   max(ended) over (partition by line order by place
                                    rows between unbounded preceding and 1 preceding) as before
            from trail where kind = 'command') steps
        where before > began""",
    "only one worker has claimed commands of a key": f"""
        with {_SPANS}
        select a.ordering_key, a.id, a.worker, a.at,
               b.id as other, b.worker as others, b.at as since
        from spans a join spans b on b.ordering_key = a.ordering_key and b.worker <> a.worker
             and b.at <= a.at and a.at < coalesce(b.until, 'infinity')
        where a.status = 'running' and b.status = 'running'""",
    "a chunk has one key, is in order, and within its length": f"""
        select chunk, array_agg(distinct l.line) as lines, array_agg(r.id order by l.place) as ids
        from chaos_ledger l join chaos_rows r on r.kind = l.kind and r.key = l.key
        where chunk is not null group by chunk
        having count(distinct l.line) > 1 or count(*) > {CHUNK}
            or array_agg(r.id order by l.place) <> array_agg(r.id order by r.id)""",
    "running commands of a queue stay within its limit": f"""
        with {_SPANS}
        select a.id, a.at, count(*) as running, array_agg(b.id) as ids
        from spans a join spans b on b.status = 'running' and b.queue = a.queue
             and b.at <= a.at and a.at < coalesce(b.until, 'infinity')
        where a.status = 'running' and a.queue = 'chaos.scarce'
        group by a.id, a.at having count(*) > {AT_ONCE}""",
    "claims of a queue stay within its rate": f"""
        select a.id, a.started_at, count(*) as claimed
        from chaos_moves a join chaos_moves b on b.status = 'running' and b.queue = a.queue
             and b.started_at <= a.started_at and b.started_at > a.started_at - interval '1 s'
        where a.status = 'running' and a.queue = 'chaos.paced'
        group by a.id, a.place, a.started_at having count(*) > {PER_SECOND}""",
    "one unsettled command has a unique key": """
        with lives as (
            select unique_key, id, min(at) as at, min(place) as place,
                   min(at) filter (where status in ('failed', 'gone')) as until
            from chaos_moves where unique_key is not null group by 1, 2
        )
        select * from (
            select unique_key, id, at, lag(id) over key as other, lag(until) over key as until
            from lives window key as (partition by unique_key order by place)) steps
        where other is not null and (until is null or until > at)""",
    "a command cancelled for its unique key has a successor": """
        select r.id, r.key, r.unique_key from chaos_rows r
        where r.unique_key is not null and r.status = 'cancelled' and not exists (
            select from chaos_rows o where o.unique_key = r.unique_key and o.id > r.id)""",
    "an event with a dedup key happens once": """
        with promised as (
            select distinct script ->> 'dedup' as dedup from chaos_produced where kind = 'once'
        ), seen as (
            select r.script ->> 'dedup' as dedup, count(*) as times, array_agg(r.key) as keys
            from chaos_rows r join chaos_ledger l on l.kind = r.kind and l.key = r.key
            where r.type = 'chaos.once' group by 1
        )
        select dedup, times, keys from promised full join seen using (dedup)
        where times is distinct from 1 or dedup is null""",
    "each run of a schedule is sent once": """
        with promised as (
            select script ->> 'story' as story, count(*) as times
            from chaos_produced where kind = 'due' group by 1
        ), seen as (
            select correlation_id as story, count(*) as times, array_agg(kind || ' ' || id) as rows
            from chaos_rows where origin_kind = 'schedule' or source like 'schedule %' group by 1
        )
        select story, p.times as promised, s.times as sent, s.rows
        from promised p full join seen s using (story) where p.times is distinct from s.times""",
}
