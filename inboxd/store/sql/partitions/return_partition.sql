-- Attach a retired partition again.
-- parameters: $1 text part
-- returns: nothing
-- locks: SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on the partition
SELECT {schema}.return_partition($1)
