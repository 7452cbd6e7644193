-- Count the pauses.
-- parameters: none
-- returns: count
-- locks: nothing
SELECT count(*) FROM {schema}.controls
