-- The largest id; rows that are inserted later have larger ones.
-- parameters: none
-- returns: the id (0: the table is empty)
-- locks: nothing
SELECT coalesce((SELECT id FROM {schema}.{table} ORDER BY id DESC LIMIT 1), 0)
