-- Let a batch end: folds cancel its members, page by page; it waits for nothing any more.
-- parameters: $1 bigint id
-- returns: nothing
-- locks: the row, its edges
WITH free AS (
    DELETE FROM {schema}.dependencies WHERE waiting = (SELECT batch_id FROM {schema}.batches WHERE id = $1::bigint)
), noted AS (
    INSERT INTO {schema}.batch_progress (batch_id) VALUES ($1::bigint)
)
UPDATE {schema}.batches
   SET ending = 'cancelled', needs = 0, starting = false,
       closed_at = coalesce(closed_at, clock_timestamp()), updated_at = clock_timestamp()
 WHERE id = $1::bigint
