-- Mark a batch as cancelled: folds cancel its members page by page; its own dependencies no longer count.
-- parameters: $1 bigint id
-- returns: nothing
-- locks: the row
WITH noted AS (
    INSERT INTO {schema}.batch_progress (batch_id) VALUES ($1::bigint)
)
UPDATE {schema}.batches
   SET ending = 'cancelled', needs = 0, starting = false,
       closed_at = coalesce(closed_at, clock_timestamp()), updated_at = clock_timestamp()
 WHERE id = $1::bigint
