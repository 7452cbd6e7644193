-- Dead letters that shall not run again end as dismissed, in history.
-- parameters: $1 bigint[] ids
-- returns: id of each row that was a dead letter
-- locks: the rows (held already)
WITH gone AS (
    DELETE FROM {schema}.{table} WHERE id = ANY ($1::bigint[]) AND status LIKE 'failed' RETURNING *
)
INSERT INTO {schema}.{table}_history
       ({{kind} but status, updated_at}, status, updated_at, finished_at)
SELECT {{kind} but status, updated_at}, 'dismissed', clock_timestamp(), clock_timestamp()
  FROM gone
RETURNING id
