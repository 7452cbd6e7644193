-- Remove what was rolled up.
-- parameters: $1 bigint[] ids of what workers wrote down
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.stats_written WHERE id = ANY ($1::bigint[])
