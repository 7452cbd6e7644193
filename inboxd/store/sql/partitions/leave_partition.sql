-- Detach a partition, waiting at most 50 ms for the lock.
-- parameters: $1 text part
-- returns: nothing
-- locks: ACCESS EXCLUSIVE on the parent
SELECT {schema}.leave_partition($1)
