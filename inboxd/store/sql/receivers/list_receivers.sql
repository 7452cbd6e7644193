-- The living receivers, and those that died during the last hour. A dead one is known by its silence: nothing waits for
-- it, so it is never declared dead.
-- parameters: $1 interval silence after which one counts as dead, $2 integer limit
-- returns: id, name, process (null: it has no supervisor), host, pid, version, sources, holds, state (running, draining,
--          dead), silence (seconds since the last heartbeat), started_at, spooled, broken (its spool accepts nothing any
--          more), trouble (why; null too if the role may not read it)
-- locks: nothing
SELECT id, name, process, host, pid, version, sources, holds,
       CASE WHEN clock_timestamp() - beat_at > $1::interval THEN 'dead' ELSE state END AS state,
       greatest(extract(epoch FROM clock_timestamp() - beat_at), 0)::double precision AS silence, started_at,
       spooled, broken, {content text: trouble} AS trouble
  FROM {schema}.receivers
 WHERE state IN ('running', 'draining') AND beat_at > clock_timestamp() - interval '1 hour'
 ORDER BY name, host, process, started_at, id LIMIT $2
