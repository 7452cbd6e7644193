-- Delete changes of batches that were added up.
-- parameters: $1 bigint[] ids of changes
-- returns: nothing
-- locks: the changes
DELETE FROM {schema}.batch_changes WHERE id = ANY ($1::bigint[])
