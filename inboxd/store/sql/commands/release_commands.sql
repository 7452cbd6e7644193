-- Give back the commands that this worker holds; no attempt is spent, no crash counted.
-- parameters: $1 uuid worker, $2 bigint[] ids to keep
-- returns: id of each
-- locks: the rows
UPDATE {schema}.commands
   SET status = 'pending', worker_id = NULL, started_at = NULL, updated_at = clock_timestamp()
 WHERE worker_id = $1::uuid AND status = 'running' AND id <> ALL ($2::bigint[])
RETURNING id
