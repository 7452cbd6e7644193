-- Drop a retired partition that is detached.
-- parameters: $1 text part
-- returns: true; false: it has more rows than were exported; null: somebody else was quicker
-- locks: ACCESS EXCLUSIVE on what was a partition
SELECT {schema}.drop_partition($1)
