-- The change of the number of rows when intakes moved events to other topics.
-- parameters: none
-- returns: day, source, rows
-- locks: nothing
SELECT day, source, rows FROM {schema}.statement_moves
