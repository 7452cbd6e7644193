-- Drop a retired partition that is detached.
-- parameters: $1 text part
-- returns: true; false: it has more rows than were exported; null: another session dropped or attached it
-- locks: ACCESS EXCLUSIVE on the detached table
SELECT {schema}.drop_partition($1)
