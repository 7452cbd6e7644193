-- One batch, held until the transaction ends.
-- parameters: $1 bigint id, $2 uuid batch_id (one of them null)
-- returns: id, batch_id, kind, name, status, ending, closed_at, unsettled; or no row
-- locks: the row FOR NO KEY UPDATE, as a fold does
SELECT id, batch_id, kind, name, status, ending, closed_at,
       size - succeeded - failed - cancelled - skipped AS unsettled
  FROM {schema}.batches WHERE id = ANY ($1::bigint || ARRAY(SELECT named.id FROM {schema}.batches named WHERE named.batch_id = $2::uuid))
   FOR NO KEY UPDATE
