-- The counts of days when they were closed.
-- parameters: none
-- returns: day, source, counted
-- locks: nothing
SELECT day, source, counted FROM {schema}.statement_lines
