-- Make the partitions of history and bodies for the coming days.
-- parameters: $1 integer days
-- returns: how many were made
-- locks: SHARE UPDATE EXCLUSIVE on the parents (blocks neither readers nor writers)
SELECT {schema}.make_partitions($1)
