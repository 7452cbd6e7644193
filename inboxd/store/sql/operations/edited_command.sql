-- The editable fields of a waiting command.
-- parameters: $1 bigint id
-- returns: type, run_at, priority, queue
-- locks: nothing
SELECT type, run_at, priority, queue FROM {schema}.commands WHERE id = $1
