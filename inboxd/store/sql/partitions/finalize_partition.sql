-- Finish a concurrent detach that was interrupted.
-- parameters: $1 text part
-- returns: nothing
-- locks: SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on the partition
SELECT {schema}.finalize_partition($1)
