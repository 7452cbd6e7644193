-- What of a command may be edited while it waits.
-- parameters: $1 bigint id
-- returns: run_at, priority, queue
-- locks: nothing
SELECT run_at, priority, queue FROM {schema}.commands WHERE id = $1
