-- What of a command may be edited while it waits.
-- parameters: $1 bigint id
-- returns: type, run_at, priority, queue
-- locks: nothing
SELECT type, run_at, priority, queue FROM {schema}.commands WHERE id = $1
