-- Which of these rows are there still, and not in history.
-- parameters: $1 bigint[] ids
-- returns: id
-- locks: nothing
SELECT id FROM {schema}.{table} WHERE id = ANY ($1::bigint[])
