-- By how many rows events became more or fewer when an intake moved them to other topics.
-- parameters: none
-- returns: day, source, rows
-- locks: nothing
SELECT day, source, rows FROM {schema}.statement_moves
