-- The ids among these that are in the hot table.
-- parameters: $1 bigint[] ids
-- returns: id
-- locks: nothing
SELECT id FROM {schema}.{table} WHERE id = ANY ($1::bigint[])
