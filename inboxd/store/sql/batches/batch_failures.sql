-- The first dead letters in a batch.
-- parameters: $1 bigint batch, $2 integer limit
-- returns: id, type, attempts, error (the newest, shortened)
-- locks: nothing
SELECT id, type, attempts, {content text: left(errors -> -1 ->> 'error', 200)} AS error
  FROM {schema}.commands WHERE batch_id BETWEEN $1::bigint AND $1::bigint AND status LIKE 'failed'
 ORDER BY batch_id, id LIMIT $2
