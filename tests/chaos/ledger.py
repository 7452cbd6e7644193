"""The ledger of a run: one way to write down what was promised, and what was done.

Owns its tables. Promises: each line is written in the transaction that it tells of, so that it is
there if and only if that was committed: `chaos_produced` in the producers', `chaos_ledger` in the
handlers', `chaos_moves` in those that change a command's status, `chaos_mended` in the operator's.
Only `chaos_traces` comes from outside: what handlers without a connection did. `GATHER` lays beside
it every row of inboxd, wherever it is. Known limit: the times are those of the lines, which are
written before their transactions commit.
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

# Every row wherever it is, with its payload wherever that is; made when all is quiet. A command
# that was replayed is its newest row; `root` and the lineage are those of its first. `parent` is
# the row whose handler made it, whatever batches lie between.
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
