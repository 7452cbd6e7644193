-- The sources that are told apart.
-- parameters: none
-- returns: source
-- locks: nothing
SELECT source FROM {schema}.statement_sources ORDER BY source
