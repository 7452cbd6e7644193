-- Whether workers may have died unnoticed: they missed two heartbeats, or their process on this host is gone, or they were
-- declared dead lately. Times only decide here whether to be careful, never which worker is dead.
-- parameters: $1 uuid worker, $2 text host, $3 integer[] pids alive on this host, $4 interval two
--             heartbeats
-- returns: boolean
-- locks: nothing
SELECT EXISTS (
    SELECT 1 FROM {schema}.workers w
     WHERE w.id <> $1::uuid
       AND (w.state IN ('running', 'draining')
            AND (w.beat_at < clock_timestamp() - $4::interval OR w.host = $2 AND w.pid <> ALL ($3::integer[]))
            OR w.state = 'dead' AND w.ended_at > clock_timestamp() - interval '10 minutes'))
