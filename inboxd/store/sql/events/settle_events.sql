-- Move events that their handlers have finished from the hot table into history.
-- The rows are those that this transaction claimed: their row locks are the fence.
-- parameters: $1 bigint[] ids, $2 double precision[] seconds that each took, $3 uuid worker
-- returns: nothing (the command tag counts the rows)
-- locks: the rows (held already)
WITH done AS (
    SELECT * FROM unnest($1::bigint[], $2::double precision[]) AS t(id, seconds)
), gone AS (
    DELETE FROM {schema}.events e USING done
     WHERE e.id BETWEEN done.id AND done.id RETURNING e.*, done.seconds
)
INSERT INTO {schema}.events_history
       ({event but status, attempts, updated_at},
        status, attempts, updated_at, finished_at, duration, worker_id)
SELECT {event but status, attempts, updated_at},
       'succeeded', least(attempts + 1, 32767), clock_timestamp(), clock_timestamp(), make_interval(secs => seconds), $3::uuid
  FROM gone
