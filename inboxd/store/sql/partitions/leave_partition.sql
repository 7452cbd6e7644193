-- Detach a partition, waiting for the lock for 50 ms at most.
-- parameters: $1 text part
-- returns: nothing
-- locks: ACCESS EXCLUSIVE on the parent
SELECT {schema}.leave_partition($1)
