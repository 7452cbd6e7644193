-- The sources that are counted separately.
-- parameters: none
-- returns: source
-- locks: nothing
SELECT source FROM {schema}.statement_sources ORDER BY source
