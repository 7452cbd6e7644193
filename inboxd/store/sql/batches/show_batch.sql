-- One batch with all columns.
-- parameters: $1 bigint id, $2 uuid batch_id (one of them null)
-- returns: one row, or none
-- locks: nothing
SELECT b.*, b.size - b.succeeded - b.failed - b.cancelled - b.skipped AS unsettled,
       b.finished_at - b.created_at AS duration
  FROM {schema}.batches b
 WHERE b.id = ANY ($1::bigint || ARRAY(SELECT named.id FROM {schema}.batches named WHERE named.batch_id = $2::uuid))
