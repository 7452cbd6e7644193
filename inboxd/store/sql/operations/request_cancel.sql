-- Request cancellation of running commands; their workers are informed by their next heartbeat.
-- parameters: $1 bigint[] ids
-- returns: id of each row that runs
-- locks: the rows (held already)
UPDATE {schema}.commands SET cancel_requested = true, updated_at = clock_timestamp()
 WHERE id = ANY ($1::bigint[]) AND status LIKE 'running'
RETURNING id
