-- The largest id there is: what comes later is above it.
-- parameters: none
-- returns: the id (0: there is no row)
-- locks: nothing
SELECT coalesce((SELECT id FROM {schema}.{table} ORDER BY id DESC LIMIT 1), 0)
