-- Delete rows that were rolled up.
-- parameters: $1 bigint[] ids of rows that workers wrote
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.stats_written WHERE id = ANY ($1::bigint[])
