-- Move unprocessed events into history as cancelled.
-- parameters: $1 bigint[] ids
-- returns: id of each row that was unprocessed
-- locks: the rows (held already)
WITH gone AS (
    DELETE FROM {schema}.events WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting')
    RETURNING *
)
INSERT INTO {schema}.events_history
       ({event but status, updated_at}, status, updated_at, finished_at)
SELECT {event but status, updated_at}, 'cancelled', clock_timestamp(), clock_timestamp()
  FROM gone
RETURNING id
