-- The holders of running commands, found by a loose index scan, each with its longest running command.
-- parameters: $1 integer commands of each holder that are looked at, $2 double precision a lease in seconds
-- returns: worker (a uuid), name, alive (its row says that it runs, and its last heartbeat is at most a lease old: only a
--          reaper changes the row's state, in the transaction that takes the commands back), silence
--          (seconds since its last heartbeat; null: its row is gone), commands, oldest (seconds), id,
--          type (of the oldest)
-- locks: nothing
WITH RECURSIVE holder(worker_id) AS (
    (SELECT worker_id FROM {schema}.commands WHERE status = 'running' ORDER BY worker_id LIMIT 1)
    UNION ALL
    SELECT following.worker_id
      FROM holder
     CROSS JOIN LATERAL (
         SELECT c.worker_id FROM {schema}.commands c
          WHERE c.status = 'running' AND c.worker_id > holder.worker_id ORDER BY c.worker_id LIMIT 1) following
)
SELECT holder.worker_id AS worker, w.name,
       coalesce(w.state IN ('running', 'draining') AND sign.silence < $2, false) AS alive, sign.silence, first.commands,
       extract(epoch FROM clock_timestamp() - first.begun)::double precision AS oldest, first.id, first.type
  FROM holder
  LEFT JOIN {schema}.workers w ON w.id = holder.worker_id
 CROSS JOIN LATERAL (SELECT extract(epoch FROM clock_timestamp() - w.beat_at)::double precision AS silence) sign
 CROSS JOIN LATERAL (
     SELECT count(*) OVER () AS commands, few.id, few.type, few.begun
       FROM (SELECT c.id, c.type, coalesce(c.started_at, c.updated_at) AS begun FROM {schema}.commands c
              WHERE c.status = 'running' AND c.worker_id = holder.worker_id LIMIT $1) few
      ORDER BY few.begun LIMIT 1) first
 ORDER BY first.begun
