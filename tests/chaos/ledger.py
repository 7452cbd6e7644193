"""The ledger of a run: records of promises and of effects, written in one way.

Owns its tables. Promises: each line is written in the transaction that it records, so it exists if
and only if that has committed: `chaos_produced` by producers, `chaos_ledger` by handlers,
`chaos_moves` by changes of a command's status, `chaos_mended` by the operator. Only `chaos_traces`
comes from outside: effects of handlers without a connection. `GATHER` adds every row of inboxd,
from all its tables.
Known limit: times are those of the lines, written before the commit.
"""

TABLES = """
create table chaos_produced (
    place bigserial, producer text, wave int, kind text, key uuid, script jsonb, expect text
);
create table chaos_ledger (
    place bigserial, kind text, key uuid, line text, chunk uuid,
    began timestamptz default clock_timestamp(), ended timestamptz
);
create table chaos_mended (token uuid primary key);
create table chaos_traces (key uuid);
create table chaos_moves (
    place bigserial, id bigint, queue text, ordering_key text, unique_key text, worker uuid,
    status text, started_at timestamptz, at timestamptz default clock_timestamp()
);

create function chaos_move() returns trigger language plpgsql as $$
declare
    r inboxd.commands;
begin
    if tg_op = 'DELETE' then
        r := old;
        r.status := 'gone';
    else
        r := new;
    end if;
    insert into public.chaos_moves
           (id, queue, ordering_key, unique_key, worker, status, started_at)
    values (r.id, r.queue, r.ordering_key, r.unique_key, r.worker_id, r.status, r.started_at);
    return null;
end
$$;
create trigger zz_chaos_insert after insert on inboxd.commands for each row
    when (new.queue like 'chaos.%') execute function chaos_move();
create trigger zz_chaos_update after update on inboxd.commands for each row
    when (new.queue like 'chaos.%' and (old.status, old.fence) <> (new.status, new.fence))
    execute function chaos_move();
create trigger zz_chaos_delete after delete on inboxd.commands for each row
    when (old.queue like 'chaos.%') execute function chaos_move();
"""

_BODY = """coalesce(payload, (select b.payload from inboxd.bodies b
                              where b.id = body_id and b.created_at = body_at))"""
_EVENTS = f"""
    select 'event' as kind, '{{place}}' as place, id, event_id as key, topic as lane, type, status,
           attempts, crashes, errors, source, null as origin_kind, null::bigint as origin_id,
           null::bigint as replay_of, null::text as unique_key, correlation_id, causation_id,
           {_BODY} as payload
    from inboxd.{{table}}"""
_COMMANDS = f"""
    select 'command', '{{place}}', id, command_id, queue, type, status,
           attempts, crashes, errors, null, origin_kind, origin_id,
           replay_of, unique_key, correlation_id, causation_id,
           {_BODY}
    from inboxd.{{table}}"""

# Every row of any table, with its payload; made when all processes rest. A replayed command is
# represented by its newest row; `root` and the lineage are those of its first row. `parent` is the
# row whose handler made it, also through batches.
GATHER = f"""
create table chaos_all as
select *, case type when 'testplugin.later' then payload -> 'payload' else payload end as script
from (
    {_EVENTS.format(place="hot", table="events")} union all
    {_EVENTS.format(place="history", table="events_history")} union all
    {_COMMANDS.format(place="hot", table="commands")} union all
    {_COMMANDS.format(place="history", table="commands_history")}
) as everywhere
where type like 'chaos.%' or type = 'testplugin.later';
create index on chaos_all (replay_of);
analyze chaos_all;

create table chaos_rows as
with recursive chain as (
    select kind, place, id, key as root, origin_kind, origin_id, causation_id
    from chaos_all where replay_of is null
    union all
    select a.kind, a.place, a.id, c.root, c.origin_kind, c.origin_id, c.causation_id
    from chain c join chaos_all a on a.replay_of = c.id and c.kind = 'command'
)
select a.kind, a.place, a.id, a.key, a.lane, a.type, a.status, a.attempts, a.crashes, a.errors,
       a.source, a.unique_key, a.correlation_id, a.payload, a.script, c.root, c.origin_kind,
       c.origin_id, c.causation_id,
       case when b.id is null then c.causation_id else b.causation_id end as parent
from chaos_all a
join chain c using (kind, place, id)
left join inboxd.batches b on b.batch_id = c.causation_id
where a.kind = 'event' or not exists (select from chaos_all n where n.replay_of = a.id);
create index on chaos_rows (kind, key);
create index on chaos_rows (kind, root);
create index on chaos_rows (kind, id);
create index on chaos_rows (parent);
create index on chaos_ledger (kind, key);
analyze chaos_rows;
analyze chaos_ledger;
analyze chaos_moves;
analyze chaos_produced;
"""
