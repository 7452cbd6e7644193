# ruff: noqa: E501 - the questions are SQL
"""Invariants of batches and workflows that have ended: one query for each; its rows break it.

    for name, query in WRONG_GROUPS.items():
        assert not await database.fetch(query), name

A command that follows a batch has `say` in its payload: its last word is then, otherwise or
finally. An event that starts a workflow has `steps` in its payload: lists of (name, script, needs),
where a need is "a" or "a failed".
"""

from collections.abc import Mapping

WRONG_GROUPS: Mapping[str, str] = {
    "edges left": """
        select * from inboxd.dependencies
    """,
    "batches not ended": """
        select * from inboxd.batches where status not in ('succeeded', 'failed', 'cancelled') or starting
    """,
    "counts": """
        with members as (
            select batch_id as id, case when status = 'succeeded' then 'succeeded'
                   when status = 'dismissed' or cancel_requested then 'cancelled' else 'skipped' end as ended
              from inboxd.commands_history where batch_id is not null and status <> 'failed'
            union all
            select parent_id, case when status = 'cancelled' and cancelled = 0 and ending is distinct from 'cancelled'
                   then 'skipped' else status end
              from inboxd.batches where parent_id is not null
        ), truth as (
            select id, count(*) as size, count(*) filter (where ended = 'succeeded') as succeeded,
                   count(*) filter (where ended = 'failed') as failed,
                   count(*) filter (where ended = 'cancelled') as cancelled,
                   count(*) filter (where ended = 'skipped') as skipped
              from members group by id
        )
        select b.id, b.kind, b.name, b.status, b.ending, b.size, b.succeeded, b.failed, b.cancelled, b.skipped, t.*
          from inboxd.batches b left join truth t on t.id = b.id
         where (b.size, b.succeeded, b.failed, b.cancelled, b.skipped) is distinct from
               (coalesce(t.size, 0), coalesce(t.succeeded, 0), coalesce(t.failed, 0),
                coalesce(t.cancelled, 0), coalesce(t.skipped, 0))
    """,
    "condition": """
        with told as (
            select h.id, h.status, h.cancel_requested, h.started_at, h.finished_at, h.batch_id, h.origin_id,
                   split_part(h.payload ->> 'say', ' ', -1) as say
              from inboxd.commands_history h where h.type like '%.told' and h.origin_kind = 'batch'
        )
        select t.*, b.status as batch_status, b.failed_at, b.finished_at as batch_finished
          from told t join inboxd.batches b on b.id = t.origin_id
         where t.status = 'succeeded' and case t.say
                   when 'then' then b.status <> 'succeeded' or t.started_at < b.finished_at
                   when 'otherwise' then b.failed_at is null or t.started_at < b.failed_at
                   else b.status not in ('succeeded', 'failed', 'cancelled') end
            or t.status <> 'succeeded' and not t.cancel_requested and case t.say
                   when 'then' then b.status = 'succeeded'
                   when 'otherwise' then b.failed_at is not null
                   else true end
               and not exists (select from inboxd.batches p where p.id = t.batch_id and p.ending = 'skipped')
    """,
    "early": """
        select t.id, b.id as batch from inboxd.commands_history t join inboxd.batches b on b.id = t.origin_id
         where t.type like '%.told' and t.origin_kind = 'batch' and t.status = 'succeeded'
           and t.payload ->> 'say' like '%then'
           and exists (select from inboxd.commands_history m where m.batch_id = b.id and m.finished_at > t.started_at)
    """,
    "steps": """
        with flow as (
            select b.id, e.payload -> 'steps' as steps from inboxd.batches b
              join inboxd.events_history e on e.id = b.origin_id and b.origin_kind = 'event'
             where b.kind = 'workflow'
        ), edge as (
            select f.id, s.value ->> 0 as step, split_part(a.value, ' ', 1) as needs,
                   coalesce(nullif(split_part(a.value, ' ', 2), ''), 'succeeded') as condition
              from flow f cross join jsonb_array_elements(f.steps) s
             cross join jsonb_array_elements_text(s.value -> 2) a
        ), ended as (
            select s.batch_id as id, s.name, h.status, h.started_at, h.finished_at, h.cancel_requested, h.replay_of
              from inboxd.steps s join inboxd.commands_history h on h.command_id = s.member
        )
        select e.*, before.status as before, after.status as after from edge e
          join ended before on before.id = e.id and before.name = e.needs
          join ended after on after.id = e.id and after.name = e.step
         where after.status = 'succeeded' and (
               e.condition = 'succeeded' and (before.status <> 'succeeded' or before.finished_at > after.started_at)
               or e.condition = 'failed' and before.replay_of is null and before.status <> 'dismissed'
               or e.condition = 'finished' and before.replay_of is null and before.status = 'succeeded' and before.finished_at > after.started_at)
    """,
}
