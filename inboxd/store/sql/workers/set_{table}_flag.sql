-- Set the wake-up flag of a table: 0 silent, 1 notify, 2 off (see migrations/0001_tables.sql).
-- parameters: $1 bigint
-- returns: the value
-- locks: nothing (sequences are not transactional)
SELECT setval('{schema}.{table}_flag', $1::bigint)
