-- Close an open batch, and fold it.
-- parameters: $1 uuid batch
-- returns: id, parent_id; no row if the batch does not exist; it raises if it is closed already
-- locks: the batch FOR UPDATE: waits for transactions that add members, and for a fold
SELECT b.id, b.parent_id, {schema}.close_batch(b.batch_id) FROM {schema}.batches b WHERE b.batch_id = $1::uuid
