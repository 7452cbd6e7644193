-- The counts of duplicates.
-- parameters: none
-- returns: day, source, rows
-- locks: nothing
SELECT day, source, rows FROM {schema}.statement_duplicates
