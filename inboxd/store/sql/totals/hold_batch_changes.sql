-- Lock the oldest changes of batches, to add them up in the same transaction.
-- parameters: $1 integer changes
-- returns: id
-- locks: the changes; those that another leader holds are skipped
SELECT id FROM {schema}.batch_changes ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
