-- Release the commands that this worker holds; spends no attempt, counts no crash.
-- parameters: $1 uuid worker, $2 bigint[] ids to keep
-- returns: id of each
-- locks: the rows, in the order of ids
WITH held AS MATERIALIZED (
    SELECT id FROM {schema}.commands
     WHERE worker_id = $1::uuid AND status = 'running' AND id <> ALL ($2::bigint[]) ORDER BY id + 0
       FOR NO KEY UPDATE
)
UPDATE {schema}.commands c
   SET status = 'pending', worker_id = NULL, started_at = NULL, updated_at = clock_timestamp()
  FROM held WHERE c.id BETWEEN held.id AND held.id
RETURNING c.id
