-- The counts of rows that were removed from history because of their type's age.
-- parameters: none
-- returns: day, source, status, rows
-- locks: nothing
SELECT day, source, status, rows FROM {schema}.statement_trimmed
