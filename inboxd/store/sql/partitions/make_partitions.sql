-- Make the partitions of history and bodies for the days ahead.
-- parameters: $1 integer days
-- returns: how many were made
-- locks: SHARE UPDATE EXCLUSIVE on the parents (stops neither readers nor writers)
SELECT {schema}.make_partitions($1)
