-- Commands that do not run end as cancelled, in history, at once.
-- parameters: $1 bigint[] ids
-- returns: id of each row that did not run
-- locks: the rows (held already)
WITH gone AS (
    DELETE FROM {schema}.commands WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting')
    RETURNING *
)
INSERT INTO {schema}.commands_history
       ({command but status, cancel_requested, updated_at},
        status, cancel_requested, updated_at, finished_at)
SELECT {command but status, cancel_requested, updated_at},
       'cancelled', true, clock_timestamp(), clock_timestamp()
  FROM gone
RETURNING id
